import { z } from 'zod';
import type { EvaluationContext } from '#domain/flags/compile.ts';
import { type FlagSet, type FlagOwner } from '#domain/flags/flag-sets.ts';
import { defaultEnvironment, targetingKey } from '#domain/flags/definition.ts';
import { evaluate } from '#domain/flags/evaluate.ts';
import { bulkText, etagOf, evaluateAll, isNamed, singleText } from '#domain/flags/ofrep.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { maxInlineBytes } from '#lib/json-parser.ts';
import { everyone, withKey } from '#api/access.ts';
import type { Call } from '#api/call.ts';
import { type Endpoint, RawReply } from '#api/endpoint.ts';
import { restUrl } from '#api/http/rest-url.ts';
import { type RawRequest, rawEndpoint } from '#api/raw-endpoint.ts';
import { streamFlagChanges } from '#api/streams/flag-changes.ts';

/** The OpenFeature Remote Evaluation Protocol 0.3 (contract, section 10). */

const access = { ...withKey('secret', 'publishable', 'user'), lastKnown: true } as const;
type FlagCall = Call<typeof access>;

const root = '/p/{ref}/ofrep/v1';
const common = { area: 'flags', access, rate: 'flags', errors: 'ofrep' } as const;
const query = z.object({ environment: z.string().optional().describe('Left out: production.') });

const environmentOf = ({ queryText }: RawRequest): string =>
  queryText === '' ? defaultEnvironment : (new URLSearchParams(queryText).get('environment') ?? defaultEnvironment);

interface ReadContext {
  readonly context: EvaluationContext;
  /** As it came, behind the claims of a user's token: equal bytes have equal contexts. */
  readonly bytes: Buffer;
}

const invalid = (message: string): ServiceError => new ServiceError('validation_failed', message);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const parse = async (bytes: Buffer, { deps, project }: FlagCall): Promise<unknown> => {
  if (bytes.length === 0) return {};
  if (bytes.length > maxInlineBytes) return (await deps.json.parse(bytes, { owner: project.org_id })).value;
  try {
    return JSON.parse(bytes.toString()) as unknown;
  } catch {
    throw new ServiceError('invalid_json', 'The body is not JSON.');
  }
};

/** A body without a context is one about nobody: flags without rules need none. */
const givenContext = (body: unknown): Record<string, unknown> => {
  if (!isObject(body)) throw invalid('The body must be an object with a context.');
  const { context = {} } = body;
  if (!isObject(context)) throw invalid('The context must be an object.');
  const key = Object.hasOwn(context, targetingKey) ? context[targetingKey] : undefined;
  if (key !== undefined && typeof key !== 'string') throw invalid('The targetingKey must be a text.');
  return context;
};

/** The claims of a user's token, under what the request says. */
const contextOf = async (request: RawRequest, call: FlagCall): Promise<ReadContext> => {
  const bytes = await request.body();
  const given = givenContext(await parse(bytes, call));
  const { role, claims } = call.caller;
  // The claims that stand for a key are nobody's.
  if (call.key !== null && (role === 'service' || claims === '{"role":"anon"}')) return { context: given, bytes };
  const user = JSON.parse(claims) as Record<string, unknown>;
  const context = { [targetingKey]: user['sub'], ...user, ...given };
  return { context, bytes: Buffer.concat([Buffer.from(`${claims}\n`), bytes]) };
};

const setOf = async ({ deps }: FlagCall, owner: FlagOwner, request: RawRequest): Promise<FlagSet> => {
  const found = deps.flags.sets.get(owner, environmentOf(request));
  const set = found instanceof Promise ? await found : found;
  if (set === null) throw notFound('environment');
  return set;
};

const single = async (request: RawRequest, call: FlagCall): Promise<RawReply> => {
  const { sets, usage } = call.deps.flags;
  const { context } = await contextOf(request, call);
  const set = await setOf(call, call.project, request);
  const flag = set.flags.get(request.params['key'] ?? '');
  if (flag === undefined) throw notFound('flag');
  const outcome = evaluate(set, flag, context);
  usage.note(set, outcome);
  return new RawReply(singleText(outcome, sets.isStale()));
};

const streamUrlOf = (call: FlagCall, { environment }: FlagSet): string => {
  const token = call.deps.flags.streamTokens.of({ projectId: call.project.id, environment });
  return `${restUrl(call.project.ref, call)}/ofrep/v1/streams?token=${token}`;
};

const bulk = async (request: RawRequest, call: FlagCall): Promise<RawReply> => {
  const { sets, usage } = call.deps.flags;
  const { context, bytes } = await contextOf(request, call);
  const set = await setOf(call, call.project, request);
  const etag = etagOf(set, bytes);
  call.setHeader('ETag', etag);
  call.setHeader('Cache-Control', 'private, no-cache');
  if (isNamed(request.header('if-none-match'), etag)) return new RawReply(null, undefined, 304);
  const outcomes = await evaluateAll(set, context);
  usage.noteAll(set, outcomes);
  return new RawReply(bulkText(set, outcomes, { isStale: sets.isStale(), streamUrl: streamUrlOf(call, set) }));
};

const unauthenticated = (): ServiceError =>
  new ServiceError('unauthenticated', 'The token of this stream is not valid any more.', {
    hint: 'Ask for all flags: the answer has a new address in eventStreams.',
  });

export const ofrepEndpoints: readonly Endpoint[] = [
  rawEndpoint({
    method: 'post',
    path: `${root}/evaluate/flags/{key}`,
    summary: 'The value of one flag (OpenFeature Remote Evaluation Protocol)',
    ...common,
    query,
    handle: single,
  }),
  rawEndpoint({
    method: 'post',
    path: `${root}/evaluate/flags`,
    summary: 'The values of all flags (OpenFeature Remote Evaluation Protocol)',
    ...common,
    query,
    handle: bulk,
  }),
  rawEndpoint({
    method: 'get',
    path: `${root}/streams`,
    area: 'flags',
    summary: 'Changes of flags as server-sent events: eventStreams of the answer for all flags leads here',
    access: everyone,
    rate: 'none',
    errors: 'ofrep',
    anyOrigin: true,
    mediaType: 'text/event-stream',
    query: z.object({ token: z.string().max(300) }),
    handle: (request, { deps }) => {
      const grant = deps.flags.streamTokens.open(new URLSearchParams(request.queryText).get('token') ?? '');
      if (grant === null) throw unauthenticated();
      return streamFlagChanges(deps, request, grant);
    },
  }),
];
