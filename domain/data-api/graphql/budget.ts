import { failure } from './failure.ts';

/** Levels of fields, the root's included (contract, section 5). */
const deepest = 10;
/** Rows that may come back, plus fields (contract, section 5). */
const highestCost = 1000;
/** Rows of a list that says no limit: as many as come, at most. */
export const defaultLimit = 100;
/** The assumed size of a list within rows that has no limit. */
const usualRows = 5;
// Fragments in fragments multiply: 30 lines can ask for a billion fields.
const maxVisits = 10_000;
/** Comparisons, the words that join them, and terms of an order, of one statement. */
const maxConditions = 1000;

/** Keeps count of what one statement's conditions ask for, and throws once it is too much. */
export interface ConditionBudget {
  readonly condition: () => void;
}

export const createConditionBudget = (): ConditionBudget => {
  let conditions = 0;
  return {
    condition: () => {
      conditions += 1;
      if (conditions > maxConditions)
        throw failure('query_too_costly', `There are more than ${maxConditions} conditions.`, undefined, manyValues);
    },
  };
};

const manyValues = 'Many values of one column are one condition: {id: {_in: [1, 2, 3]}}.';

/** Keeps count of what an operation asks for. Every method throws once it is too much. */
export interface Budget {
  /** One selection, wherever it stands. */
  readonly visit: () => void;
  /** Fields of one level. @param level 1 at the root */
  readonly fields: (count: number, level: number) => void;
  /**
   * Rows of a list, for each of `outer` rows.
   * @param limit null without one
   * @returns how many rows are to be reckoned with within it
   */
  readonly rows: (outer: number, limit: number | null, isRoot: boolean) => number;
}

export const createBudget = (): Budget => {
  let visits = 0;
  let cost = 0;
  const spend = (amount: number): void => {
    cost += amount;
    if (cost > highestCost)
      throw failure(
        'query_too_costly',
        `The operation may bring more than ${highestCost} rows and fields together. Lower its limits: a list without one counts ${defaultLimit} rows, one within rows ${usualRows} for each.`,
      );
  };
  return {
    visit: () => {
      visits += 1;
      if (visits > maxVisits) throw failure('query_too_costly', `The operation selects more than ${maxVisits} times.`);
    },
    fields: (count, level) => {
      if (level > deepest) throw failure('query_too_deep', `The operation is more than ${deepest} levels deep.`);
      spend(count);
    },
    rows: (outer, limit, isRoot) => {
      const rows = outer * (limit ?? (isRoot ? defaultLimit : usualRows));
      spend(rows);
      return rows;
    },
  };
};
