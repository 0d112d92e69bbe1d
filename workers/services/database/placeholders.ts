import { CallFault } from '../../runtimes/runtime.ts';

/** How parameters stand in SQL: `$1` (PostgreSQL), or `%s` (Python's drivers). */
export type Style = 'percent' | 'numbered';

const badPercent = (found: string): CallFault =>
  new CallFault('TypeError', `"${found}" is no placeholder: parameters are written %s, a percent sign %%.`);

const fromPercent = (sql: string, count: number): string => {
  let used = 0;
  const text = sql.replaceAll(/%([\s\S]?)/g, (found: string, kind: string) => {
    if (kind === '%') return '%';
    if (kind !== 's') throw badPercent(found);
    used += 1;
    return `$${used}`;
  });
  if (used !== count) {
    throw new CallFault('TypeError', `The SQL has ${used} placeholders (%s), but ${count} parameters are given.`);
  }
  return text;
};

/**
 * SQL with `$n` for parameters. As in Python's drivers, every percent sign counts, also in literals, and none does when
 * no parameters are given at all.
 * @throws {CallFault}
 */
export const numbered = (sql: string, style: Style, params: readonly unknown[] | null): string =>
  style === 'percent' && params !== null ? fromPercent(sql, params.length) : sql;
