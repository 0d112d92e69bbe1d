import { z } from 'zod';
import { tableSchema } from '#domain/database/tables/describe.ts';
import {
  addColumn,
  addColumnSql,
  createTable,
  createTableSql,
  dropColumn,
  dropColumnSql,
  dropTable,
  dropTableSql,
} from '#domain/database/tables/table-changes.ts';
import { listTables } from '#domain/database/tables/tables.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
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
import { dropping, dryRun, sqlAnswer } from '#api/shapes/schema-changes.ts';
import { changeOf, depsOf } from '../../database-change.ts';
import { previewReply } from './changes.ts';

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
    query: dryRun,
    body: newTable,
    status: 201,
    response: z.union([z.object({ name: z.string(), columns: z.array(column) }), sqlAnswer]),
    transaction: 'none',
    handle: async ({ query, body, key }, call) => {
      if (query.dry_run === 'true') return previewReply(call, async (client) => [await createTableSql(client, body)]);
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
    query: dropping,
    transaction: 'none',
    handle: async ({ params, query }, call) => {
      const cascade = query.cascade === 'true';
      if (query.dry_run === 'true')
        return previewReply(call, async (client) => [await dropTableSql(client, params.table, cascade)]);
      await dropTable(depsOf(call), changeOf(call), params.table, cascade);
      return new RawReply(null, null, 204);
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/tables/{table}/columns',
    area,
    summary: 'Add a column to a table',
    access: inProject('developer'),
    params: tablePath,
    query: dryRun,
    body: newColumn,
    status: 201,
    response: z.union([column, sqlAnswer]),
    transaction: 'none',
    handle: ({ params, query, body, key }, call) => {
      if (query.dry_run === 'true')
        return previewReply(call, async (client) => [await addColumnSql(client, params.table, body)]);
      return inTurn(call, key, (once) => addColumn(depsOf(call), changeOf(call, once), params.table, body));
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/db/tables/{table}/columns/{column}',
    area,
    summary: 'Drop a column; with cascade also what depends on it',
    access: inProject('developer'),
    params: columnPath,
    query: dropping,
    transaction: 'none',
    handle: async ({ params, query }, call) => {
      const cascade = query.cascade === 'true';
      if (query.dry_run === 'true')
        return previewReply(call, async (client) => [await dropColumnSql(client, params, cascade)]);
      await dropColumn(depsOf(call), changeOf(call), params, cascade);
      return new RawReply(null, null, 204);
    },
  }),
];

/** Tables of a project's database (contract, section 5). */
export const tableEndpoints: readonly Endpoint[] = [...readEndpoints, ...changeEndpoints];
