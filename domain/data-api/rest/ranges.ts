import { DataError } from '#domain/data-api/errors.ts';

/** A window of rows; `limit` null: as many as there may be. */
export interface Window {
  readonly offset: number;
  readonly limit: number | null;
}

/** @param total rows that there are, where they were counted */
const notSatisfiable = (details: string, total: number | null): DataError =>
  new DataError(416, 'PGRST103', 'Requested range not satisfiable', {
    details,
    headers: { 'Content-Range': `*/${total ?? '*'}` },
  });

/**
 * `Range: 0-24` (with `Range-Unit: items`, or without). What is not of this form is ignored, as PostgREST does, a range of
 * bytes for one.
 * @throws {DataError} PGRST103 when it ends before it begins
 */
export const parseRange = (header: string): Window | null => {
  const [, first, last] = /^(?:items=)?(\d{1,15})-(\d{0,15})$/.exec(header.trim()) ?? [];
  if (first === undefined) return null;
  const offset = Number(first);
  if (last === undefined || last === '') return { offset, limit: null };
  if (Number(last) < offset) {
    const details = 'The lower boundary must be lower than or equal to the upper boundary in the Range header.';
    throw notSatisfiable(details, null);
  }
  return { offset, limit: Number(last) - offset + 1 };
};

/** Returns the intersection of both: the part of the second range that lies within the first. */
export const within = (outer: Window, inner: Window): Window => {
  const offset = Math.max(outer.offset, inner.offset);
  const ends = [outer, inner].flatMap(({ offset, limit }) => (limit === null ? [] : [offset + limit]));
  return { offset, limit: ends.length === 0 ? null : Math.max(0, Math.min(...ends) - offset) };
};

/** `0-24/100`; an asterisk where nothing is, and where nothing was counted. */
export const contentRange = (offset: number, rows: number, total: number | null): string =>
  `${rows > 0 ? `${offset}-${offset + rows - 1}` : '*'}/${total ?? '*'}`;

/**
 * 200 for all there is (or when nothing was counted), 206 for a part.
 * @throws {DataError} PGRST103 when the page begins after the last row
 */
export const pageStatus = (offset: number, rows: number, total: number | null): 200 | 206 => {
  if (total === null) return 200;
  if (offset > total) {
    throw notSatisfiable(`An offset of ${offset} was requested, but there are only ${total} rows.`, total);
  }
  return rows < total ? 206 : 200;
};
