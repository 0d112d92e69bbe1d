import { type InProject, call } from '../../cli.ts';
import { failed } from '../../errors.ts';
import { send } from '../../http.ts';

const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Reads JSON; a number that JavaScript cannot hold becomes its text, as `bigint` and `numeric` have them. */
export const parseExact = (text: string): unknown =>
  JSON.parse(
    text.replaceAll(token, (found) =>
      found.startsWith('"') || String(Number(found)) === found ? found : `"${found}"`,
    ),
  );

/** The answer of a statement. */
export interface QueryAnswer {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  readonly row_count: number;
  readonly truncated?: boolean;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly command: string | null;
}

const timeoutMs = 60_000;

export const query = async (project: InProject, sql: string, params: readonly unknown[] = []): Promise<QueryAnswer> => {
  const response = await send(project, `${project.path}/db/query`, {
    method: 'POST',
    body: { sql, params },
    timeoutMs,
  });
  const text = await response.text();
  try {
    return parseExact(text) as QueryAnswer;
  } catch {
    throw failed('no_platform', `${project.url} answered something else than JSON.`);
  }
};

/** The names of tables with their columns, and on which other tables they depend. */
export interface TableShape {
  readonly schema: string;
  readonly name: string;
  readonly kind: string;
  readonly row_estimate: number | null;
  readonly columns: readonly { readonly name: string; readonly generated: string | null }[];
  readonly foreign_keys: readonly { readonly references: { readonly schema: string; readonly table: string } }[];
}

/** Schemas that hold what belongs to the platform. */
const platformSchema = /^(?:auth|storage|plinth.*)$/;

/** The tables that the project made. */
export const tablesOf = async (project: InProject): Promise<readonly TableShape[]> =>
  (await call<{ tables: TableShape[] }>(project, `${project.path}/db/schema`)).tables.filter(
    ({ schema }) => !platformSchema.test(schema),
  );
