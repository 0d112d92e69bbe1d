import type { LinesDb } from '../data-api.ts';
import type { DataSchema } from '../schema/schema.ts';
import { toDataError } from '../errors.ts';
import { linesSql } from '../sql/read.ts';
import { queryOf } from './call-function.ts';
import { readPlan } from './read-plan.ts';
import { type Form, maxRows, negotiate, schemaNameOf } from './request.ts';
import { type RestCall, type RestDeps, runOf, withFreshSchema } from './rest.ts';
import { tableOf } from './tables.ts';

/** All rows that a request chooses, as a file. */
export interface Export {
  readonly form: Form;
  /** Its text, piece by piece; the next is read when it is asked for. To be read to its end, or returned. */
  readonly body: AsyncGenerator<string, void>;
}

type Deps = Pick<RestDeps, 'schemas'> & { readonly data: LinesDb };

/** As whom and for whom rows are exported. */
export interface ExportCall extends RestCall {
  readonly userId: string;
  readonly table: string;
}

const textOf = async function* textOf(
  { data }: Deps,
  call: ExportCall,
  { schema, form }: { readonly schema: DataSchema; readonly form: Form },
): AsyncGenerator<string, void> {
  const { caller, request, dialect, table, userId } = call;
  const query = queryOf(schema, request, dialect);
  const plan = readPlan(schema, tableOf(schema, table), query, { maxLimit: maxRows });
  // A page has at most 1000 rows; a file has all, or as many as the request says.
  const limit = query.limit.findLast(({ path }) => path.length === 0)?.what ?? null;
  const { sql, head, separator, tail } = linesSql({ ...plan, limit }, form.kind === 'csv' ? 'csv' : 'array');
  const run = { ...runOf(call, schema.name), mode: 'read' } as const;
  const pieces = data.lines(caller, run, { sql, separator, userId });
  try {
    const first = await pieces.next();
    // A generator that has not begun would not end `pieces` when it is returned.
    yield '';
    yield first.done === true ? head : `${head}\n${first.value}`;
    for await (const piece of pieces) yield `${separator}${piece}`;
    yield tail;
  } finally {
    await pieces.return();
  }
};

/**
 * Reads the rows of a table that a request in PostgREST's dialect chooses, all of them as they are at one moment. It is
 * known to be readable when this resolves: its first piece has been read.
 * @throws {DataError} what is wrong with it, or what the server refused
 * @throws {ServiceError} `too_many_calls`
 */
export const exportRows = async (deps: Deps, call: ExportCall): Promise<Export> => {
  const { caller, request } = call;
  try {
    const form = negotiate(request.header('accept'));
    return await withFreshSchema(deps, caller, schemaNameOf(request, call.exposed), async (schema) => {
      const text = textOf(deps, call, { schema, form });
      await text.next();
      return { form, body: text };
    });
  } catch (error) {
    throw toDataError(error, caller);
  }
};
