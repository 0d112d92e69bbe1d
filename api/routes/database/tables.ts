import { z } from 'zod';
import type { Once } from '#domain/database/console/owner-key.ts';
import { tableSchema } from '#domain/database/tables/describe.ts';
import {
  type ChangeOf,
  type TableChangeDeps,
  addColumn,
  createTable,
  dropColumn,
  dropTable,
} from '#domain/database/tables/table-changes.ts';
import { listTables } from '#domain/database/tables/tables.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { inTurn } from '../../idempotency.ts';
import {
  area,
  column,
  columnPath,
  newColumn,
  newTable,
  projectPath,
  tableDescription,
  tableEntry,
  tablePath,
} from '#api/shapes/database.ts';

const cascade = z
  .object({ cascade: z.enum(['true', 'false']).default('false') })
  .transform((query) => query.cascade === 'true');

const depsOf = ({ deps }: Call<InProject>): TableChangeDeps => ({ ...deps, tenantDb: deps.projects.tenantDb });
const changeOf = ({ project, signal }: Call<InProject>, once?: Once): ChangeOf => ({
  projectId: project.id,
  signal,
  once,
});

const readEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/tables',
    area,
    summary: 'The tables of schema public, by name',
    access: inProject('viewer'),
    params: projectPath,
    response: z.array(tableEntry),
    handle: (_input, { deps, project }) => listTables(deps.projects.tenantDb, project.id),
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/tables/{table}/schema',
    area,
    summary: 'A table or view: columns, keys, indexes, checks, row-level security',
    access: inProject('viewer'),
    params: tablePath,
    response: tableDescription,
    handle: ({ params }, { deps, project }) => tableSchema(deps.projects.tenantDb, project.id, params.table),
  }),
];

const changeEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/tables',
    area,
    summary: 'Create a table',
    access: inProject('developer'),
    params: projectPath,
    body: newTable,
    status: 201,
    response: z.object({ name: z.string(), columns: z.array(column) }),
    transaction: 'none',
    handle: async ({ body, key }, call) => {
      const { name, columns } = await inTurn(call, key, (once) =>
        createTable(depsOf(call), changeOf(call, once), body),
      );
      return { name, columns: [...columns] };
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/db/tables/{table}',
    area,
    summary: 'Drop a table; with cascade also what depends on it',
    access: inProject('developer'),
    params: tablePath,
    query: cascade,
    transaction: 'none',
    handle: ({ params, query }, call) => dropTable(depsOf(call), changeOf(call), params.table, query),
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/tables/{table}/columns',
    area,
    summary: 'Add a column to a table',
    access: inProject('developer'),
    params: tablePath,
    body: newColumn,
    status: 201,
    response: column,
    transaction: 'none',
    handle: ({ params, body, key }, call) =>
      inTurn(call, key, (once) => addColumn(depsOf(call), changeOf(call, once), params.table, body)),
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/db/tables/{table}/columns/{column}',
    area,
    summary: 'Drop a column; with cascade also what depends on it',
    access: inProject('developer'),
    params: columnPath,
    query: cascade,
    transaction: 'none',
    handle: ({ params, query }, call) => dropColumn(depsOf(call), changeOf(call), params, query),
  }),
];

/** Tables of a project's database (contract, section 5). */
export const tableEndpoints: readonly Endpoint[] = [...readEndpoints, ...changeEndpoints];
