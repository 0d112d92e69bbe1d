import { z } from 'zod';
import { noteChange } from '#domain/database/database.ts';
import { runConsoleQuery } from '#domain/database/console/console.ts';
import { slowQueries } from '#domain/database/slow-queries.ts';
import { mayChangeSchema, mayWriteRows } from '#domain/database/console/statement-words.ts';
import { atLeast } from '#domain/teams/store.ts';
import { inProject } from '../access.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { exactJson } from '../http/exact-body.ts';
import { page, text } from '../fields.ts';
import { inTurn } from '../idempotency.ts';
import { area, projectPath, queryAnswer, slowQuery } from '#api/shapes/database.ts';
import { schemaChangeEndpoints } from './database/changes.ts';
import { exportEndpoints } from './database/export.ts';
import { historyEndpoints, remembered } from './database/history.ts';
import { rowEndpoints } from './database/rows.ts';
import { schemaEndpoints } from './database/schema.ts';
import { snippetEndpoints } from './database/snippets.ts';
import { tableEndpoints } from './database/tables.ts';

const maxParams = 65_535;
/** Parameters, what is in them, and the other fields. */
const maxExactValues = 70_000;

/** Out of the body as it came, so that numbers that JavaScript cannot hold are kept. */
const exactParams = (bodyText: string): unknown[] =>
  (exactJson(bodyText, maxExactValues) as { params?: unknown[] | null }).params ?? [];

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
      read_only: z.boolean().default(false).describe('Nothing can be written, whoever asks.'),
      remember: z.boolean().default(false).describe('Adds it to your history of this project.'),
    }),
    response: queryAnswer,
    transaction: 'none',
    handle: async ({ body: { sql, read_only: isReadOnly, remember }, bodyText, key }, call) => {
      const { deps, project, role, signal, setHeader } = call;
      const readOnly = isReadOnly || !atLeast(role, 'developer');
      const query = { projectId: project.id, sql, params: exactParams(bodyText), readOnly };
      // A read-only statement may be answered at any length, and repeated.
      const writeKey = readOnly || !mayWriteRows(sql) ? undefined : key;
      try {
        const run = (): Promise<string> =>
          inTurn({ deps, setHeader }, writeKey, (once) =>
            runConsoleQuery(deps.projects.tenantDb, { ...query, once }, signal),
          );
        return new RawReply(remember ? await remembered(call, sql, run) : await run());
      } finally {
        const change = { schema: mayChangeSchema(sql), rows: mayWriteRows(sql) };
        if (!readOnly) noteChange(deps, project.id, change);
      }
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
export const databaseEndpoints: readonly Endpoint[] = [
  ...schemaEndpoints,
  ...tableEndpoints,
  ...schemaChangeEndpoints,
  ...rowEndpoints,
  ...exportEndpoints,
  ...snippetEndpoints,
  ...historyEndpoints,
  ...dataEndpoints,
];
