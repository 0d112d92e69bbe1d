import type { RowChange } from '#domain/database/tables/row-changes.ts';
import { changeRows, previewRows } from '#domain/database/tables/row-changes.ts';
import { listRows } from '#domain/database/tables/tables.ts';
import { z } from 'zod';
import { area, tablePath } from '#api/shapes/database.ts';
import { dryRun, rowChanges, sqlAnswer } from '#api/shapes/schema-changes.ts';
import { inProject } from '../../access.ts';
import { exactJson } from '../../http/exact-body.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { text, wholeNumber } from '../../fields.ts';
import { inTurn } from '../../idempotency.ts';
import { changeOf, depsOf } from '../../database-change.ts';

interface ExactChange {
  readonly values?: object;
  readonly key?: object;
  readonly old?: object;
}

/** 1,000 changes of 50 values each. */
const maxExactValues = 50_000;

/** The checked changes, with values as they came: numbers that JavaScript cannot hold are kept. */
const exactChanges = (changes: z.output<typeof rowChanges>['changes'], bodyText: string): RowChange[] => {
  const exact = exactJson(bodyText, maxExactValues) as { readonly changes: readonly ExactChange[] };
  return changes.map((change, index) => ({ ...change, ...exact.changes[index] }) as RowChange);
};

/** Rows of a table, as its makers see and change them (contract, section 5). */
export const rowEndpoints: readonly Endpoint[] = [
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
      count: z
        .enum(['none', 'exact', 'estimated'])
        .optional()
        .describe('Left out: exact on the first page of up to 100,000 rows, and else estimated.'),
    }),
    response: z.array(z.record(z.string(), z.unknown())),
    handle: async ({ params, query }, { deps, project, signal, setHeader }) => {
      const { order = null, count = null, ...rest } = query;
      const of = { projectId: project.id, table: params.table, signal };
      const { text: rows, total } = await listRows(deps.projects.tenantDb, of, { ...rest, order, count });
      if (total !== null) {
        setHeader('X-Total-Count', String(total.rows));
        setHeader('X-Total-Count-Kind', total.kind);
      }
      return new RawReply(rows);
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/tables/{table}/changes',
    area,
    summary: 'Change rows in one transaction; those that somebody else has changed are a conflict',
    access: inProject('developer'),
    params: tablePath,
    query: dryRun,
    body: rowChanges,
    bodyLimit: 'function',
    response: sqlAnswer,
    transaction: 'none',
    handle: async ({ params, query, body, bodyText, key }, call) => {
      const wanted = { table: params.table, changes: exactChanges(body.changes, bodyText) };
      if (query.dry_run === 'true') return { sql: await previewRows(depsOf(call), call.project.id, wanted) };
      return { sql: await inTurn(call, key, (once) => changeRows(depsOf(call), changeOf(call, once), wanted)) };
    },
  }),
];
