import type { z } from 'zod';
import type { IdempotencyKey } from '#domain/idempotency/idempotency.ts';
import {
  addConstraint,
  alterColumn,
  alterTable,
  createIndex,
  dropConstraint,
  dropIndex,
} from '#domain/database/tables/definitions.ts';
import { alterEnum, createEnum, dropEnum } from '#domain/database/tables/enums.ts';
import { alterPolicy, createPolicy, dropPolicy } from '#domain/database/tables/policies.ts';
import { type SchemaChange, changeSchema, previewChange } from '#domain/database/tables/table-changes.ts';
import { area, columnPath, projectPath, tablePath } from '#api/shapes/database.ts';
import {
  columnPatch,
  constraintPath,
  dropping,
  dryRun,
  enumPatch,
  enumPath,
  indexPath,
  newConstraint,
  newEnum,
  newIndex,
  newPolicy,
  policyPatch,
  policyPath,
  sqlAnswer,
  tablePatch,
} from '#api/shapes/schema-changes.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { inTurn } from '../../idempotency.ts';
import { changeOf, depsOf } from '../../database-change.ts';

/** The SQL of a change, which does not run. */
export const previewReply = async (call: Call<InProject>, change: SchemaChange): Promise<RawReply> =>
  new RawReply(JSON.stringify({ sql: await previewChange(depsOf(call), call.project.id, change) }));

interface Options {
  readonly query: z.output<typeof dryRun>;
  readonly key: IdempotencyKey | undefined;
}

const make = async (call: Call<InProject>, { query, key }: Options, change: SchemaChange) => {
  if (query.dry_run === 'true') return previewReply(call, change);
  const sql = await inTurn(call, key, (once) => changeSchema(depsOf(call), changeOf(call, once), change));
  return { sql };
};

const drop = async (
  call: Call<InProject>,
  { dry_run: isDryRun }: z.output<typeof dryRun>,
  change: SchemaChange,
): Promise<RawReply> => {
  if (isDryRun === 'true') return previewReply(call, change);
  await changeSchema(depsOf(call), changeOf(call), change);
  return new RawReply(null, null, 204);
};

const common = { area, access: inProject('developer'), transaction: 'none' } as const;
const altering = { ...common, method: 'patch', query: dryRun, response: sqlAnswer } as const;
const adding = { ...common, method: 'post', query: dryRun, status: 201, response: sqlAnswer } as const;
const removing = { ...common, method: 'delete', query: dropping } as const;

const tableChanges: readonly Endpoint[] = [
  endpoint({
    ...altering,
    path: '/projects/{project_id}/db/tables/{table}',
    summary: 'Rename a table, comment on it, or switch its row-level security',
    params: tablePath,
    body: tablePatch,
    handle: ({ params, body, ...options }, call) => make(call, options, alterTable(params.table, body)),
  }),
  endpoint({
    ...altering,
    path: '/projects/{project_id}/db/tables/{table}/columns/{column}',
    summary: 'Rename a column, or change its type, default, NOT NULL or comment',
    params: columnPath,
    body: columnPatch,
    handle: ({ params, body, ...options }, call) => make(call, options, alterColumn(params, body)),
  }),
  endpoint({
    ...adding,
    path: '/projects/{project_id}/db/tables/{table}/constraints',
    summary: 'Add a primary key, a unique constraint, a check or a foreign key',
    params: tablePath,
    body: newConstraint,
    handle: ({ params, body, ...options }, call) => make(call, options, addConstraint(params.table, body)),
  }),
  endpoint({
    ...removing,
    path: '/projects/{project_id}/db/tables/{table}/constraints/{constraint}',
    summary: 'Drop a constraint',
    params: constraintPath,
    handle: ({ params: { table, constraint }, query }, call) =>
      drop(call, query, dropConstraint({ table, name: constraint, cascade: query.cascade === 'true' })),
  }),
  endpoint({
    ...adding,
    path: '/projects/{project_id}/db/tables/{table}/indexes',
    summary: 'Create an index; writers wait until it is built',
    params: tablePath,
    body: newIndex,
    handle: ({ params, body, ...options }, call) => make(call, options, createIndex(params.table, body)),
  }),
  endpoint({
    ...removing,
    path: '/projects/{project_id}/db/tables/{table}/indexes/{index}',
    summary: 'Drop an index',
    params: indexPath,
    handle: ({ params: { table, index }, query }, call) =>
      drop(call, query, dropIndex({ table, name: index, cascade: query.cascade === 'true' })),
  }),
];

const policyChanges: readonly Endpoint[] = [
  endpoint({
    ...adding,
    path: '/projects/{project_id}/db/tables/{table}/policies',
    summary: 'Create a policy of row-level security',
    params: tablePath,
    body: newPolicy,
    handle: ({ params, body, ...options }, call) => make(call, options, createPolicy(params.table, body)),
  }),
  endpoint({
    ...altering,
    path: '/projects/{project_id}/db/tables/{table}/policies/{policy}',
    summary: 'Change a policy',
    params: policyPath,
    body: policyPatch,
    handle: ({ params, body, ...options }, call) => make(call, options, alterPolicy(params.table, params.policy, body)),
  }),
  endpoint({
    ...removing,
    path: '/projects/{project_id}/db/tables/{table}/policies/{policy}',
    summary: 'Drop a policy',
    params: policyPath,
    query: dryRun,
    handle: ({ params, query }, call) => drop(call, query, dropPolicy(params.table, params.policy)),
  }),
];

const enumChanges: readonly Endpoint[] = [
  endpoint({
    ...adding,
    path: '/projects/{project_id}/db/enums',
    summary: 'Create an enumerated type',
    params: projectPath,
    body: newEnum,
    handle: ({ body, ...options }, call) => make(call, options, createEnum(body.name, body.values)),
  }),
  endpoint({
    ...altering,
    path: '/projects/{project_id}/db/enums/{enum}',
    summary: 'Add a value to an enumerated type, rename one, or rename the type',
    params: enumPath,
    body: enumPatch,
    handle: ({ params, body, ...options }, call) => make(call, options, alterEnum(params.enum, body)),
  }),
  endpoint({
    ...removing,
    path: '/projects/{project_id}/db/enums/{enum}',
    summary: 'Drop an enumerated type',
    params: enumPath,
    handle: ({ params, query }, call) => drop(call, query, dropEnum(params.enum, query.cascade === 'true')),
  }),
];

/** Changes of the schema beyond tables and columns; with `dry_run` each answers its SQL (contract, section 13). */
export const schemaChangeEndpoints: readonly Endpoint[] = [...tableChanges, ...policyChanges, ...enumChanges];
