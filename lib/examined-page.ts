import type { Queryable } from './control-db.ts';

/*
 * Pages of rows whose ids ascend with time, the latest first. The id of the last row is the cursor: rows that come while
 * somebody reads on stand before what was read, so that no page repeats or leaves out a row. A page examines a bounded
 * number of rows, whatever its filter asks for.
 */

/** So many rows a page examines for what its filter asks: some 40 ms of PostgreSQL's time. */
const maxExamined = 20_000;

/** Higher than every id. */
export const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

interface PageQuery {
  /** SQL: the rows that are examined, each with an `id`; without an order. Each part reads them by an index. */
  readonly examined: readonly string[];
  /** SQL: the columns that are answered, from `examined`; with `id`. */
  readonly columns: string;
  /** SQL: the condition on an examined row. */
  readonly fits: string;
  /** False: each row fits, and no more are examined than are answered. */
  readonly isFiltered: boolean;
  readonly values: readonly unknown[];
  readonly limit: number;
}

interface PageRow<Row> {
  readonly found: readonly Row[];
  readonly examined: number;
  readonly last: string | null;
}

/** Rows of a page. It may hold fewer than were asked for, even none, while `next` is not null. */
interface ExaminedPage<Row> {
  /** Values come within JSON: times are texts. */
  readonly rows: readonly Row[];
  /** The cursor of the page behind it; null at the end. */
  readonly next: string | null;
}

/** Reads a page. The statement has no name: it is planned for its values, and a null takes its condition out. */
export const readPage = async <Row extends { readonly id: string }>(
  db: Queryable,
  { examined, columns, fits, isFiltered, values, limit }: PageQuery,
): Promise<ExaminedPage<Row>> => {
  const most = isFiltered ? maxExamined : limit + 1;
  const parts = examined.map((part) => `(select * from (${part}) part order by id desc limit ${most})`);
  const [page] = await db.query<PageRow<Row>>(
    `with examined as materialized (
       select * from (${parts.join(' union all ')}) parts order by id desc limit ${most}),
     fitting as (select ${columns} from examined where ${fits} order by id desc limit ${limit + 1})
     select (select coalesce(json_agg(f order by f.id desc), '[]') from fitting f) as found,
       (select count(*)::int from examined) as examined, (select id from examined order by id limit 1) as last`,
    values,
  );
  if (page === undefined) throw new Error('a page has no row');
  const rows = page.found.slice(0, limit);
  if (page.found.length > limit) return { rows, next: rows.at(-1)?.id ?? null };
  return { rows, next: page.examined === most ? page.last : null };
};
