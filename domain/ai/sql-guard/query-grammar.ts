import { noteImplied, noteOperator } from './expression-grammar.ts';
import type { Grammar, NodeRule, Notes } from './grammar.ts';
import { textIn } from './grammar.ts';
import type { Fields } from './parse.ts';

const plain = (fields: NodeRule['fields']): NodeRule => ({ fields });

const readSchemas = new Set(['', 'public', 'information_schema']);

/** The catalog reveals sessions, settings and files; its views are reached without a schema, too. */
const checkRead = (relation: Fields, notes: Notes, byte: number | undefined): void => {
  const schema = textIn(relation, 'schemaname');
  const name = textIn(relation, 'relname');
  const inCatalog = schema === '' && name.startsWith('pg_');
  if (!readSchemas.has(schema) || inCatalog) {
    const where = inCatalog ? 'pg_catalog' : schema;
    return notes.refuse('schema', `Tables of the schema ${where} cannot be read; those of public can.`, byte);
  }
  notes.tables.add(schema === 'information_schema' ? `${schema}.${name}` : name);
};

const select = plain({
  distinctClause: 'nodes',
  targetList: 'nodes',
  fromClause: 'nodes',
  whereClause: 'nodes',
  groupClause: 'nodes',
  groupDistinct: 'value',
  havingClause: 'nodes',
  windowClause: 'nodes',
  valuesLists: 'nodes',
  sortClause: 'nodes',
  limitOffset: 'nodes',
  limitCount: 'nodes',
  limitOption: 'value',
  withClause: { is: 'WithClause' },
  op: 'value',
  all: 'value',
  larg: { is: 'SelectStmt' },
  rarg: { is: 'SelectStmt' },
});

const fromQuery = { lateral: 'value', subquery: 'nodes', alias: { is: 'Alias' } } as const;
const withQuery = { ctename: 'value', aliascolnames: 'nodes', ctematerialized: 'value', ctequery: 'nodes' } as const;

const sources: Grammar = {
  RangeVar: {
    fields: {
      schemaname: 'value',
      relname: 'value',
      inh: 'value',
      relpersistence: 'value',
      alias: { is: 'Alias' },
    },
    check: checkRead,
  },
  RangeSubselect: plain(fromQuery),
  RangeFunction: plain({
    lateral: 'value',
    ordinality: 'value',
    is_rowsfrom: 'value',
    functions: 'nodes',
    alias: { is: 'Alias' },
    coldeflist: 'nodes',
  }),
  JoinExpr: {
    fields: {
      jointype: 'value',
      isNatural: 'value',
      larg: 'nodes',
      rarg: 'nodes',
      usingClause: 'nodes',
      join_using_alias: { is: 'Alias' },
      quals: 'nodes',
      alias: { is: 'Alias' },
    },
    // USING and NATURAL ask whether columns are equal.
    check: ({ usingClause, isNatural }, notes) =>
      noteImplied(notes, usingClause !== undefined || isNatural === true ? ['='] : []),
  },
  Alias: plain({ aliasname: 'value', colnames: 'nodes' }),
};

/** In a policy. */
const maxDerived = 2;

const countDerived: NonNullable<NodeRule['check']> = (_fields, notes, byte) => {
  notes.derived += 1;
  if (notes.derived !== maxDerived + 1) return;
  notes.refuse('clause', `A policy can have ${maxDerived} queries in FROM and WITH, and not more.`, byte);
};

/** Read-only statements: the statements in WITH are queries again, and there is neither INTO nor a lock. */
export const queryGrammar: Grammar = {
  ...sources,
  SelectStmt: select,
  ResTarget: plain({ name: 'value', val: 'nodes' }),
  WithClause: plain({ ctes: 'nodes', recursive: 'value' }),
  CommonTableExpr: plain(withQuery),
  GroupingSet: plain({ kind: 'value', content: 'nodes' }),
  GroupingFunc: plain({ args: 'nodes' }),
  SubLink: {
    fields: { subLinkType: 'value', testexpr: 'nodes', operName: 'nodes', subselect: 'nodes' },
    check: ({ operName, testexpr }, notes, byte) => {
      // x IN (SELECT …) names none and means =.
      if (testexpr !== undefined && operName === undefined) noteImplied(notes, ['=']);
      else noteOperator(operName, notes, byte);
    },
  },
  // The column definitions of functions that return records.
  ColumnDef: plain({ colname: 'value', typeName: { is: 'TypeName' }, is_local: 'value' }),
};

/**
 * The queries of a policy. There is no WITH RECURSIVE, and few stand in FROM and WITH: the planner writes the columns of
 * one into the next, so that thirty with `x + x` would be a thousand million terms, and it cannot be interrupted.
 */
export const policyQueryGrammar: Grammar = {
  ...queryGrammar,
  RangeSubselect: { fields: fromQuery, check: countDerived },
  CommonTableExpr: { fields: withQuery, check: countDerived },
  WithClause: plain({ ctes: 'nodes' }),
};
