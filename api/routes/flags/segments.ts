import { z } from 'zod';
import { checkedInThread } from '#api/http/body.ts';
import {
  type SegmentChange,
  changeSegment,
  createSegment,
  deleteSegment,
  getSegment,
  listSegments,
  segmentKeysOf,
} from '#domain/flags/segments.ts';
import { ServiceError } from '#lib/errors.ts';
import { inProject } from '#api/access.ts';
import { type Endpoint, RawReply, endpoint } from '#api/endpoint.ts';
import { id, name, page } from '#api/fields.ts';
import { conditions, flagKey, pathKey, segment } from '#api/shapes/flags.ts';
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

const withoutKeys = segment.omit({ keys: true }).meta({ id: 'SegmentWithoutKeys' });

const invalid = (path_: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path: path_, message }] });

const missing = (): ServiceError => invalid('key', 'is missing');
const neither = (): ServiceError => invalid('conditions', 'has either conditions or keys');

const bodyOf = (body: unknown): SegmentBody => body as SegmentBody;

const shownConditions = <Row extends { readonly conditions: readonly unknown[] | null }>(row: Row) => ({
  ...row,
  conditions: row.conditions === null ? null : [...row.conditions],
});

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
    response: z.object({ segments: z.array(segment), total: z.int() }),
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
    response: withoutKeys,
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
    handle: async ({ params }, { db, project }) => {
      const row = await getSegment(db, project.id, params.key);
      const head = JSON.stringify(z.encode(withoutKeys, shownConditions(row)));
      return new RawReply([head.slice(0, -1), ',"keys":', (await segmentKeysOf(db, row.id)) ?? 'null', '}']);
    },
  }),
  endpoint({
    method: 'patch',
    path: `${path}/{key}`,
    area,
    summary: 'Change a segment; what is left out stays, and a list of keys is replaced whole',
    access: inProject('developer'),
    bodyLimit: 'flags',
    readBody: checkedInThread(readers.segment),
    params: segmentPath,
    body: change,
    response: withoutKeys,
    handle: async ({ params, body }, call) => {
      const { key, ...fields } = bodyOf(body);
      if (key !== undefined && key !== params.key) throw invalid('key', 'cannot be changed');
      const changes: SegmentChange = fields;
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
    handle: ({ params }, call) => deleteSegment(call.db, authorOf(call), params.key),
  }),
];
