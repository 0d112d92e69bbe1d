import { z } from 'zod';
import { noteChange } from '#domain/database/database.ts';
import { runConsoleQuery } from '#domain/database/console/console.ts';
import { listRows } from '#domain/database/tables/tables.ts';
import { slowQueries } from '#domain/database/slow-queries.ts';
import { mayChangeSchema, mayWriteRows } from '#domain/database/console/statement-words.ts';
import { atLeast } from '#domain/teams/store.ts';
import { parseExactJson } from '#lib/json.ts';
import { inProject } from '../access.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { page, text, wholeNumber } from '../fields.ts';
import { inTurn } from '../idempotency.ts';
import { area, projectPath, queryAnswer, slowQuery, tablePath } from '#api/shapes/database.ts';
import { schemaEndpoints } from './database/schema.ts';
import { tableEndpoints } from './database/tables.ts';

const maxParams = 65_535;

/** Out of the body as it came, so that numbers that JavaScript cannot hold are kept. */
const exactParams = (bodyText: string): unknown[] =>
  (parseExactJson(bodyText) as { params?: unknown[] | null }).params ?? [];

const dataEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/query',
    area,
    summary: 'Run one SQL statement in a fresh session; a viewer’s can only read',
    access: inProject('viewer'),
    params: projectPath,
    body: z.strictObject({
      sql: text(1024 * 1024, 1),
      params: z.array(z.unknown()).max(maxParams).nullish().describe('For $1, $2, … in the statement.'),
    }),
    response: queryAnswer,
    transaction: 'none',
    handle: async ({ body: { sql }, bodyText, key }, { deps, project, role, signal, setHeader }) => {
      const readOnly = !atLeast(role, 'developer');
      const query = { projectId: project.id, sql, params: exactParams(bodyText), readOnly };
      // A read-only statement may be answered at any length, and repeated.
      const writeKey = readOnly || !mayWriteRows(sql) ? undefined : key;
      try {
        const answer = await inTurn({ deps, setHeader }, writeKey, (once) =>
          runConsoleQuery(deps.projects.tenantDb, { ...query, once }, signal),
        );
        return new RawReply(answer);
      } finally {
        const change = { schema: mayChangeSchema(sql), rows: mayWriteRows(sql) };
        if (!readOnly) noteChange(deps, project.id, change);
      }
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/{table}/rows',
    area,
    summary: 'Rows of a table or view; X-Total-Count says how many there are',
    access: inProject('viewer'),
    params: tablePath,
    query: z.object({
      limit: wholeNumber(50, 1, 1000),
      offset: wholeNumber(0, 0, Number.MAX_SAFE_INTEGER),
      order: text(10_000, 1).optional().describe('Columns, as name.desc,id; left out: by primary key.'),
    }),
    response: z.array(z.record(z.string(), z.unknown())),
    handle: async ({ params, query: { order = null, ...rest } }, { deps, project, signal, setHeader }) => {
      const of = { projectId: project.id, table: params.table, signal };
      const { text: rows, total } = await listRows(deps.projects.tenantDb, of, { ...rest, order });
      setHeader('X-Total-Count', String(total));
      return new RawReply(rows);
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/slow-queries',
    area,
    summary: 'Which statements took longest in total, without their values',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ queries: z.array(slowQuery), total: z.int() }),
    handle: ({ query }, { deps, project }) => slowQueries(deps.servers, project, query),
  }),
];

/** A project's database, as its makers see it (interface, "Database"; contract, section 5). */
export const databaseEndpoints: readonly Endpoint[] = [...schemaEndpoints, ...tableEndpoints, ...dataEndpoints];
