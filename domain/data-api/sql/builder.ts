import { DataError } from '#domain/data-api/errors.ts';
import type { Sql } from '#domain/data-api/plan.ts';

/** The parameters of one statement, and the names that it gives to its parts. */
export interface SqlBuilder {
  /**
   * @param text in the server's text form; its type is what the statement makes of it
   * @returns `$n`
   * @throws {DataError} when a statement would bind more than the wire can carry
   */
  readonly bind: (text: string | null) => string;
  /**
   * Counts conditions on related rows.
   * @throws {DataError} 54001 when there are more than the server should have to plan
   */
  readonly relate: (conditions: number) => void;
  /** A name for a row source that no other part of the statement has. */
  readonly alias: () => string;
  /** The statement, once its text is written. */
  readonly finish: (text: string) => Sql;
}

// A Bind message counts its parameters in 16 bits.
const maxParams = 65_535;

// To the planner each is one more table to join: 40 in one SELECT took a session all its memory.
const maxRelated = 15;
// Subqueries have conditions of their own, which are planned by themselves.
const maxRelatedTogether = 100;

const tooManyRelated = (): DataError =>
  new DataError(400, '54001', `At most ${maxRelated} conditions on related rows can be asked for.`, {
    hint: `An inner relation is one, and so is a filter on one; subqueries have their own, ${maxRelatedTogether} altogether.`,
  });

export const createSqlBuilder = (): SqlBuilder => {
  const params: (string | null)[] = [];
  let aliases = 0;
  let related = 0;
  return {
    bind: (text) => {
      if (params.length === maxParams)
        throw new DataError(400, '54000', 'The request holds too many values.', {
          hint: 'Put values of one column into one list: column=in.(1,2,3).',
        });
      params.push(text);
      return `$${params.length}`;
    },
    relate: (conditions) => {
      related += conditions;
      if (conditions > maxRelated || related > maxRelatedTogether) throw tooManyRelated();
    },
    alias: () => `t${(aliases += 1)}`,
    finish: (text) => ({ text, params }),
  };
};
