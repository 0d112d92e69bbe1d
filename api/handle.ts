import type { Context } from 'koa';
import type { Queryable } from '#lib/control-db.ts';
import { type Disconnection, abortSignalOf } from '#lib/disconnection.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Actor } from '#domain/audit/actor.ts';
import type { Starter } from '#domain/jobs/store.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Access } from './access.ts';
import { addressOf, isLocalCaller, networkOf } from './address.ts';
import { authenticate } from './auth/authenticate.ts';
import { bearerOf } from './auth/credentials.ts';
import { checkCookieUse } from './auth/session-cookie.ts';
import { baseUrlOf } from './http/base-url.ts';
import { bodyRules } from './http/body-rules.ts';
import { noGivenBody, readAnyBody } from './http/any-body.ts';
import { type JsonBody, bodySoonAtHand, readBody, readBodyInThread, readJsonBody } from './http/body.ts';
import type { AnyCaller, BaseCall, HttpRequest } from './call.ts';
import type { Deps } from './deps.ts';
import type { Endpoint, Input } from './endpoint.ts';
import { idempotencyKeyOf } from './idempotency.ts';
import { parsePrefer } from './http/prefer.ts';
import type { RateName, RateVerdict } from './rate-limit.ts';
import type { RawRequest, RawWork } from './raw-endpoint.ts';
import { noteCompressible } from './http/compress.ts';
import { type Reply, replyOf } from './http/reply.ts';
import { runDirect, runJob } from './run.ts';
import { setReply } from './http/send-reply.ts';
import { starterOf } from './starter.ts';
import { checkBody, checkParams, checkQuery } from './validate.ts';

/** The projects of one organization share what one party may take of a process. */
const groupOf = (owner: string, { project }: AnyCaller): string => project?.org_id ?? owner;

const noBody: JsonBody = { text: '', value: undefined };
const noBytes: JsonBody = { text: '', value: noGivenBody };

/** Before anybody has signed in no project is known: then the address counts. */
const ownerOf = (ctx: Context, { project, user }: AnyCaller): string =>
  project?.id ?? user?.id ?? networkOf(addressOf(ctx));

const bodyOf = (endpoint: Endpoint, ctx: Context, call: BaseCall): Promise<JsonBody> => {
  if (endpoint.method === 'get') return Promise.resolve(endpoint.anyBody ? noBytes : noBody);
  if (endpoint.body === undefined) return Promise.resolve(noBody);
  const rules = bodyRules(endpoint, ctx, call.deps);
  if (endpoint.anyBody) return readAnyBody(ctx, rules);
  return endpoint.readBody ? readBodyInThread(ctx, rules, endpoint.readBody) : readJsonBody(ctx, rules);
};

const whoIs = (access: Access, { user }: AnyCaller): Pick<Actor, 'type' | 'id' | 'email'> => {
  if (user) return { type: 'user', id: user.id, email: user.email };
  return { type: access.kind === 'operator' ? 'operator' : 'system' };
};

const actorOf = (access: Access, caller: AnyCaller, ctx: Context): Actor => ({
  ...whoIs(access, caller),
  ip: addressOf(ctx),
  user_agent: ctx.get('user-agent').slice(0, 300),
  request_id: String(ctx.state['requestId']),
});

type Hooks = (() => Promise<void>)[];

/** Whether the client has gone before it had its answer. */
class ClientDisconnection implements Disconnection {
  readonly #listeners = new Set<() => void>();
  aborted = false;

  constructor({ res }: Context) {
    // It may have gone while it was found out who it is.
    this.aborted = res.destroyed;
    res.once('close', () => {
      if (res.writableEnded) return;
      this.aborted = true;
      for (const listener of this.#listeners) listener();
    });
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener);
  }
}

interface CallParts {
  readonly access: Access;
  readonly ctx: Context;
  readonly deps: Deps;
  readonly caller: AnyCaller;
  readonly hooks: Hooks;
}

/** Values that few handlers need are computed on first use. */
class RequestCall implements BaseCall {
  readonly #parts: CallParts;
  readonly deps: Deps;
  readonly db: Queryable;
  readonly disconnection: Disconnection;
  #signal: AbortSignal | undefined;

  constructor(parts: CallParts, db: Queryable, disconnection: Disconnection) {
    this.#parts = parts;
    this.deps = parts.deps;
    this.db = db;
    this.disconnection = disconnection;
  }

  get signal(): AbortSignal {
    return (this.#signal ??= abortSignalOf(this.disconnection));
  }

  get actor(): Actor {
    const { access, caller, ctx } = this.#parts;
    return actorOf(access, caller, ctx);
  }

  get starter(): Starter {
    return starterOf(this.#parts.caller);
  }

  get requestId(): string {
    return String(this.#parts.ctx.state['requestId']);
  }

  get ip(): string {
    return addressOf(this.#parts.ctx);
  }

  get userAgent(): string | undefined {
    return this.#parts.ctx.get('user-agent').slice(0, 300) || undefined;
  }

  get bearer(): string | undefined {
    return bearerOf(this.#parts.ctx);
  }

  get isLocal(): boolean {
    return isLocalCaller(this.#parts.ctx);
  }

  get ifMatch(): string | undefined {
    return this.#parts.ctx.get('if-match') || undefined;
  }

  get wantsEvents(): boolean {
    return this.#parts.ctx.get('accept').toLowerCase().includes('text/event-stream');
  }

  get http(): HttpRequest {
    const { ctx } = this.#parts;
    const { method, path, querystring: queryText, headers, state } = ctx;
    return { method, path, queryText, headers, host: ctx.hostname, isOwnHost: state['isOwnHost'] === true };
  }

  get baseUrl(): string {
    return baseUrlOf(this.#parts.ctx, this.deps.config);
  }

  readonly setHeader = (name: string, value: string | readonly string[]): void =>
    this.#parts.ctx.set(name, typeof value === 'string' ? value : [...value]);

  readonly noteLine = (fields: Readonly<Record<string, unknown>>): void => {
    this.#parts.ctx.state['line'] = fields;
  };

  readonly afterCommit = (work: () => Promise<void>): void => void this.#parts.hooks.push(work);

  within(db: Queryable): RequestCall & AnyCaller {
    return Object.assign(new RequestCall(this.#parts, db, this.disconnection), this.#parts.caller);
  }
}

const noteRate = (ctx: Context, rateClass: RateName, verdict: RateVerdict): void => {
  ctx.set('RateLimit-Policy', `"${rateClass}";q=${verdict.limit};w=${verdict.windowSeconds}`);
  ctx.set('RateLimit', `"${rateClass}";r=${verdict.remaining};t=${verdict.resetSeconds}`);
};

/** Null: no limit. */
const rateOf = (rate: Endpoint['rate'], { project }: AnyCaller): RateName | null => {
  if (rate === 'none' || rate === 'function') return null;
  if (rate !== 'data' && rate !== 'ai' && rate !== 'flags') return rate;
  const plan = project?.plan ?? 'free';
  return plan === 'enterprise' ? null : `${rate}-${plan}`;
};

/** An end user whose token comes without a key counts with the others of the project who do so. */
const subjectOf = (ctx: Context, { user, key, project }: AnyCaller): string =>
  user?.id ?? key?.id ?? project?.id ?? networkOf(addressOf(ctx));

/** @throws {ServiceError} `rate_limited` */
const takeFrom = (ctx: Context, { rateLimiter }: Deps, name: RateName, subject: string): void => {
  const verdict = rateLimiter.take(name, subject);
  noteRate(ctx, name, verdict);
  if (verdict.allowed) return;
  throw new ServiceError('rate_limited', 'Too many requests.', {
    hint: `Try again in ${verdict.resetSeconds} s.`,
    headers: { 'Retry-After': String(verdict.resetSeconds) },
  });
};

/**
 * Calls without credentials are limited by address and by project: one caller must not use up what the project may
 * have, and many callers together must not do so either. Addresses count for each project by itself, since providers
 * send the webhooks of many projects from a few.
 * @throws {ServiceError} `rate_limited`
 */
const takePublicRate = (ctx: Context, deps: Deps, { id, plan }: Project): void => {
  takeFrom(ctx, deps, 'public-address', `${id} ${networkOf(addressOf(ctx))}`);
  if (plan !== 'enterprise') takeFrom(ctx, deps, `public-${plan}`, id);
};

/** @throws {ServiceError} `rate_limited` */
const takeRate = ({ rate }: Endpoint, ctx: Context, deps: Deps, caller: AnyCaller): void => {
  if (deps.config.PLINTH_RATE_LIMITS === 'off') return;
  const { project } = caller;
  if (rate === 'function' && project !== undefined && 'isPublic' in caller) return takePublicRate(ctx, deps, project);
  const name = rateOf(rate, caller);
  if (name !== null) takeFrom(ctx, deps, name, subjectOf(ctx, caller));
};

const run = (
  endpoint: Endpoint,
  ctx: Context,
  input: Input<never, never, never>,
  call: BaseCall & AnyCaller,
): Promise<Reply> => {
  const key = idempotencyKeyOf(ctx, endpoint.access, call, input.bodyText);
  const { work } = endpoint;
  if (work.kind === 'direct') return runDirect({ endpoint, work, input, call, key });
  if (work.kind === 'job') return runJob({ endpoint, work, input, call, key }, parsePrefer(ctx.get('prefer')));
  throw new Error(`${endpoint.path} reads its requests itself`);
};

const credentialHeaders = new Set(['authorization', 'apikey', 'x-api-key', 'cookie']);

const publicHeaders = ({ headers }: Context): string =>
  JSON.stringify(Object.fromEntries(Object.entries(headers).filter(([name]) => !credentialHeaders.has(name))));

const rawRequestOf = (endpoint: Endpoint, ctx: Context, call: BaseCall): RawRequest => ({
  method: ctx.method,
  path: ctx.path,
  queryText: ctx.querystring,
  params: (ctx['params'] ?? {}) as Record<string, string>,
  header: (name) => ctx.get(name),
  headersJson: () => publicHeaders(ctx),
  body: async () => (await bodySoonAtHand(ctx.req)) ?? (await readBody(ctx.req, bodyRules(endpoint, ctx, call.deps))),
  signal: call.disconnection,
  context: ctx,
});

const runRaw = (
  { endpoint, work }: { endpoint: Endpoint; work: RawWork },
  ctx: Context,
  call: BaseCall & AnyCaller,
): Promise<Reply> => work.handle(rawRequestOf(endpoint, ctx, call), call).then((reply) => replyOf(endpoint, reply));

// The change is committed, so it is answered as done; what was left over is a sweep's to finish.
const noteHook = ({ log }: Deps, error: unknown): void =>
  log.warn({ err: error }, 'the follow-up of a committed change failed; it is repeated later');

const answer = async (endpoint: Endpoint, ctx: Context, call: BaseCall & AnyCaller): Promise<Reply> => {
  const { work } = endpoint;
  if (work.kind === 'raw') return runRaw({ endpoint, work }, ctx, call);
  const params = (ctx['params'] ?? {}) as Record<string, string>;
  const checked = { params: checkParams(endpoint, params), query: checkQuery(endpoint, ctx.query) };
  const body = await bodyOf(endpoint, ctx, call);
  const input = {
    ...checked,
    body: endpoint.readBody ? body.value : checkBody(endpoint, body.value),
    bodyText: body.text,
  } as Input<never, never, never>;
  return run(endpoint, ctx, input, call);
};

/**
 * One request to one endpoint, in this order: who calls, rate, path, query, body, work. What is cheap and refuses
 * strangers comes before what is dear.
 */
export const handle = async (endpoint: Endpoint, ctx: Context, deps: Deps): Promise<void> => {
  ctx.state['errorForm'] = endpoint.errors;
  // An answer for one caller must not be cached for another, nor beyond the sign-out.
  ctx.set('Cache-Control', 'no-store');
  const params = (ctx['params'] ?? {}) as Record<string, string>;
  const caller = await authenticate(endpoint.access, ctx, deps, params);
  if (caller.credential?.kind === 'cookie') checkCookieUse(endpoint, ctx, deps);
  takeRate(endpoint, ctx, deps, caller);
  const owner = ownerOf(ctx, caller);
  ctx.state['owner'] = owner;
  ctx.state['projectId'] = caller.project?.id;
  ctx.state['caller'] = caller;
  ctx.state['group'] = groupOf(owner, caller);
  const hooks: Hooks = [];
  const call = new RequestCall(
    { access: endpoint.access, ctx, deps, caller, hooks },
    deps.db,
    new ClientDisconnection(ctx),
  );
  const worked = Promise.withResolvers<void>();
  ctx.state['worked'] = worked.promise;
  try {
    const reply = await answer(endpoint, ctx, Object.assign(call, caller));
    for (const hook of hooks) await hook().catch((error: unknown) => noteHook(deps, error));
    setReply(ctx, reply);
    noteCompressible(ctx, endpoint);
  } catch (error) {
    // A caller from memory who may not call any more gets that refusal, whatever else was wrong with the request.
    await caller.member?.renew(deps.db);
    throw error;
  } finally {
    worked.resolve();
  }
};
