import { DataError } from '../errors.ts';
import type { Sql } from '../plan.ts';

/** What one statement binds, and the names that it gives to its parts. */
export interface SqlBuilder {
  /**
   * @param text in the server's text form; its type is what the statement makes of it
   * @returns `$n`
   * @throws {DataError} when a statement would bind more than the wire can carry
   */
  readonly bind: (text: string | null) => string;
  /** A name for a row source that no other part of the statement has. */
  readonly alias: () => string;
  /** The statement, once its text is written. */
  readonly finish: (text: string) => Sql;
}

// A Bind message counts its parameters in 16 bits.
const mostParams = 65_535;

export const createSqlBuilder = (): SqlBuilder => {
  const params: (string | null)[] = [];
  let aliases = 0;
  return {
    bind: (text) => {
      if (params.length === mostParams)
        throw new DataError(400, '54000', 'The request holds too many values.', {
          hint: 'Put values of one column into one list: column=in.(1,2,3).',
        });
      params.push(text);
      return `$${params.length}`;
    },
    alias: () => `t${(aliases += 1)}`,
    finish: (text) => ({ text, params }),
  };
};
