import { z } from 'zod';
import { checkedInThread } from '#api/http/body.ts';
import { type CompiledSegment, compileConditions } from '#domain/flags/compile.ts';
import { type Condition, defaultEnvironment } from '#domain/flags/definition.ts';
import { failureOfSegment } from '#domain/flags/evaluate.ts';
import {
  type SegmentChange,
  changeSegment,
  createSegment,
  deleteSegment,
  getSegment,
  listSegments,
  requireUsableConditions,
  segmentKeysOf,
  usersOfSegment,
} from '#domain/flags/segments.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { inProject } from '#api/access.ts';
import type { BaseCall, ProjectCall } from '#api/call.ts';
import { type Endpoint, RawReply, endpoint } from '#api/endpoint.ts';
import { id, name, page } from '#api/fields.ts';
import { expectedOf } from '#api/http/if-match.ts';
import {
  conditions,
  context,
  flagKey,
  listedSegment,
  partOfPage,
  pathKey,
  segment,
  segmentWithoutKeys,
} from '#api/shapes/flags.ts';
import { authorOf } from '../flags.ts';
import { type SegmentBody, readers } from '#api/shapes/flag-bodies.ts';

const area = 'flags';
const path = '/projects/{project_id}/segments';
const projectPath = z.object({ project_id: id });
const segmentPath = z.object({ project_id: id, key: pathKey });

const change = z.strictObject({
  name: name.optional(),
  conditions: conditions.optional(),
  keys: z.array(z.string()).optional().describe('Targeting keys, at most 100,000.'),
});

const withUsers = segment.omit({ keys: true });

const invalid = (path_: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path: path_, message }] });

const missing = (): ServiceError => invalid('key', 'is missing');
const neither = (): ServiceError => invalid('conditions', 'has either conditions or keys');

const bodyOf = (body: unknown): SegmentBody => body as SegmentBody;

const shownConditions = <Row extends { readonly conditions: readonly unknown[] | null }>(row: Row) => ({
  ...row,
  conditions: row.conditions === null ? null : [...row.conditions],
});

/** The segment as the processes that serve flags have it; with other conditions as it would be. */
const segmentToEvaluate = async (
  { deps, db, project }: BaseCall & ProjectCall,
  key: string,
  unsaved: readonly Condition[] | undefined,
): Promise<CompiledSegment> => {
  await getSegment(db, project.id, key);
  if (unsaved !== undefined) {
    requireUsableConditions(unsaved);
    return { keys: null, conditions: compileConditions(unsaved) };
  }
  const set = await deps.flags.sets.getPresent(project, defaultEnvironment);
  const present = set?.segments.get(key);
  if (present === undefined) throw notFound('segment');
  return present;
};

/** Groups of users that rules name (contract, section 10). */
export const flagSegmentEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The segments of the project’s users',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ segments: z.array(listedSegment).describe(partOfPage), total: z.int() }),
    handle: async ({ query }, { db, project }) => {
      const { segments, total } = await listSegments(db, project.id, query);
      return { segments: segments.map(shownConditions), total };
    },
  }),
  endpoint({
    method: 'post',
    path,
    area,
    summary: 'Create a segment: of conditions, or of up to 100,000 keys',
    access: inProject('developer'),
    bodyLimit: 'flags',
    readBody: checkedInThread(readers.segment),
    params: projectPath,
    body: change.extend({ key: flagKey }),
    status: 201,
    response: segmentWithoutKeys,
    handle: async ({ body }, call) => {
      const { key, name: called = key, conditions: some = null, keys = null } = bodyOf(body);
      if (key === undefined) throw missing();
      if (some === null && keys === null) throw neither();
      const fields = { name: called ?? key, conditions: some, keys };
      return shownConditions(await createSegment(call.db, authorOf(call), key, fields));
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/{key}`,
    area,
    summary: 'One segment, with all of its keys',
    access: inProject('viewer'),
    params: segmentPath,
    response: segment,
    handle: async ({ params }, call) => {
      const { db, project } = call;
      const row = await getSegment(db, project.id, params.key);
      const users = await usersOfSegment(db, project.id, params.key);
      const head = JSON.stringify(z.encode(withUsers, { ...shownConditions(row), used_by: users }));
      call.setHeader('ETag', `"${row.version}"`);
      return new RawReply([head.slice(0, -1), ',"keys":', (await segmentKeysOf(db, row.id)) ?? 'null', '}']);
    },
  }),
  endpoint({
    method: 'patch',
    path: `${path}/{key}`,
    area,
    summary: 'Change a segment; a list of keys is replaced whole. If-Match names the version',
    access: inProject('developer'),
    bodyLimit: 'flags',
    readBody: checkedInThread(readers.segment),
    params: segmentPath,
    body: change,
    response: segmentWithoutKeys,
    handle: async ({ params, body }, call) => {
      const { key, ...fields } = bodyOf(body);
      if (key !== undefined && key !== params.key) throw invalid('key', 'cannot be changed');
      const changes: SegmentChange = { ...fields, expected: expectedOf(call) };
      return shownConditions(await changeSegment(call.db, authorOf(call), params.key, changes));
    },
  }),
  endpoint({
    method: 'delete',
    path: `${path}/{key}`,
    area,
    summary: 'Delete a segment that no rule names',
    access: inProject('developer'),
    params: segmentPath,
    handle: ({ params }, call) => deleteSegment(call.db, authorOf(call), params.key, expectedOf(call)),
  }),
  endpoint({
    method: 'post',
    path: `${path}/{key}/evaluate`,
    area,
    summary: 'Whether a context belongs to a segment, also with conditions that are not saved; says what failed',
    access: inProject('viewer'),
    params: segmentPath,
    body: z.strictObject({
      context: context.default({}),
      conditions: conditions.optional().describe('In the place of those that are saved; nothing is changed.'),
    }),
    transaction: 'none',
    response: z.object({
      belongs: z.boolean(),
      failed: z
        .object({ attribute: z.string(), operator: z.string() })
        .nullable()
        .describe('The first check that failed.'),
    }),
    handle: async ({ params, body }, call) => {
      const failed = failureOfSegment(await segmentToEvaluate(call, params.key, body.conditions), body.context);
      return {
        belongs: failed === undefined,
        failed: failed === undefined ? null : { attribute: failed.attribute, operator: failed.operator },
      };
    },
  }),
];
