import { useEffect, useMemo, useSyncExternalStore } from 'react';
import { ApiError, send } from '../../client/api.ts';
import { textOf } from '../../client/exact-json.ts';
import { afterRow, orderOf, termsOf } from '../../client/conditions.ts';
import { useProject } from '../../client/project.ts';
import { useWhenReachable } from '../../client/reach.ts';
import { isValue, quotedName, restPath } from '../../client/rest.ts';
import { type PageAnswer, type PageRequest, type RowPages, createRowPages, pageSize } from '../../client/row-pages.ts';
import type { SchemaTable } from '../../client/schema.ts';
import { LongValue, type Row, shortRow } from '../../client/values.ts';

/** The filters, order and role in the address of a table. */
export interface View {
  readonly order: string;
  /** As whom: `service`, `anon`, `authenticated:<id>`. */
  readonly as: string;
  /** In PostgREST's grammar: `id=gt.5`. */
  readonly filter: string;
  readonly count: 'exact' | 'estimated';
}

/** Tables with more rows, by the server's estimate, are counted only on request. */
const maxCounted = 100_000;

export const primaryOrder = (table: SchemaTable): string =>
  orderOf(table.primary_key.map((column) => ({ column, isDescending: false })));

export const viewOf = (table: SchemaTable, search: URLSearchParams): View => ({
  order: search.get('order') ?? primaryOrder(table),
  as: search.get('as') ?? 'service',
  filter: search.get('filter') ?? '',
  count: search.get('count') === 'exact' || (table.row_estimate ?? 0) < maxCounted ? 'exact' : 'estimated',
});

interface Source {
  readonly projectId: string;
  readonly table: SchemaTable;
  readonly view: View;
}

/** The whole order: rows that are equal in the chosen columns come in the order of the primary key, page by page. */
const wholeOrder = ({ table, view }: Source): string => {
  const terms = termsOf(view.order);
  if (terms === null) return view.order;
  const rest = table.primary_key.filter((name) => !terms.some(({ column }) => column === name));
  return orderOf([...terms, ...rest.map((column) => ({ column, isDescending: false }))]);
};

/** The condition that leads on from a row; null: the page is counted to. */
const conditionAfter = (source: Source, after: Row | null): string | null => {
  const terms = termsOf(wholeOrder(source));
  if (after === null || terms === null || source.table.primary_key.length === 0) return null;
  return afterRow(terms, (column) => {
    const value = after[column];
    if (value === null || value === undefined || value instanceof LongValue) return null;
    return typeof value === 'object' && !('text' in value) ? null : textOf(value);
  });
};

const request = async (source: Source, query: URLSearchParams, init: RequestInit) => {
  const path = `${restPath(source.projectId, source.table.name)}?${query}`;
  const { response, body } = await send(path, init, true);
  const total = Number(response.headers.get('content-range')?.split('/')[1] ?? NaN);
  return { rows: (body as Row[]).map(shortRow), total: Number.isNaN(total) ? null : total };
};

const isTooLarge = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 413 || error.code === '54000' || error.code === 'payload_too_large');

/** Rows from an offset on; where they are too large together, a tenth of them at a time. */
const readFrom = async (
  source: Source,
  query: URLSearchParams,
  init: RequestInit,
  [offset, limit]: readonly [number, number],
): Promise<PageAnswer> => {
  const part = new URLSearchParams(query);
  part.set('limit', String(limit));
  part.set('offset', String(offset));
  try {
    return await request(source, part, init);
  } catch (error) {
    if (!isTooLarge(error) || limit === 1) throw error;
  }
  const size = Math.ceil(limit / 10);
  const rows: Row[] = [];
  let total: number | null = null;
  for (let from = 0; from < limit; from += size) {
    const answer = await readFrom(source, query, init, [offset + from, Math.min(size, limit - from)]);
    rows.push(...answer.rows);
    total ??= answer.total;
    if (answer.rows.length < size) break;
  }
  return { rows, total };
};

const readPage = (source: Source, { page, after, signal }: PageRequest): Promise<PageAnswer> => {
  const { view } = source;
  const query = new URLSearchParams(view.filter);
  const order = wholeOrder(source);
  if (order !== '') query.set('order', order);
  const condition = conditionAfter(source, after);
  if (condition !== null) query.append('or', condition);
  const headers = { 'x-plinth-as': view.as, ...(page === 0 && { prefer: `count=${view.count}` }) };
  return readFrom(source, query, { signal, headers }, [condition === null ? page * pageSize : 0, pageSize]);
};

/** The rows of a table as a view shows them, loaded as they come in sight. */
export const useRows = (table: SchemaTable, view: View): RowPages => {
  const { project } = useProject();
  const { order, as, filter, count } = view;
  const pages = useMemo(
    () =>
      createRowPages((page) => readPage({ projectId: project.id, table, view: { order, as, filter, count } }, page)),
    [project.id, table, order, as, filter, count],
  );
  useSyncExternalStore(pages.subscribe, pages.version);
  useEffect(() => () => pages.close(), [pages]);
  useWhenReachable(() => {
    if (pages.error() !== null) pages.reload();
  });
  return pages;
};

/** One row of a table by values that identify it, whole; null: there is none. */
export const readRow = async (
  projectId: string,
  table: string,
  key: Row,
  names?: readonly string[],
): Promise<Row | null> => {
  const query = new URLSearchParams(Object.entries(key).map(([name, value]) => isValue(name, value)));
  if (names !== undefined) query.set('select', names.map(quotedName).join(','));
  query.set('limit', '1');
  const { body } = await send(`${restPath(projectId, table)}?${query}`, {}, true);
  return (body as Row[])[0] ?? null;
};
