import { readStatements } from './parse.ts';

/** The statements of a text, each without its semicolon; none where it cannot be read. */
export const splitStatements = (sql: string): readonly string[] => {
  const read = readStatements(sql);
  if (!read.ok) return [];
  const bytes = Buffer.from(sql);
  return read.places.map(({ start, length }) =>
    bytes
      .subarray(start, length === 0 ? undefined : start + length)
      .toString()
      .trim(),
  );
};
