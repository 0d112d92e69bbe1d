import { noteOperator } from './expression-grammar.ts';
import type { Grammar, NodeRule, Notes } from './grammar.ts';
import { textIn } from './grammar.ts';
import type { Fields } from './parse.ts';

const plain = (fields: NodeRule['fields']): NodeRule => ({ fields });

const readSchemas = new Set(['', 'public', 'information_schema']);

/** The catalog tells of sessions, settings and files; its views are reached without a schema, too. */
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
  RangeSubselect: plain({ lateral: 'value', subquery: 'nodes', alias: { is: 'Alias' } }),
  RangeFunction: plain({
    lateral: 'value',
    ordinality: 'value',
    is_rowsfrom: 'value',
    functions: 'nodes',
    alias: { is: 'Alias' },
    coldeflist: 'nodes',
  }),
  JoinExpr: plain({
    jointype: 'value',
    isNatural: 'value',
    larg: 'nodes',
    rarg: 'nodes',
    usingClause: 'nodes',
    join_using_alias: { is: 'Alias' },
    quals: 'nodes',
    alias: { is: 'Alias' },
  }),
  Alias: plain({ aliasname: 'value', colnames: 'nodes' }),
};

/** What reads and nothing else: the statements in WITH are queries again, and there is neither INTO nor a lock. */
export const queryGrammar: Grammar = {
  ...sources,
  SelectStmt: select,
  ResTarget: plain({ name: 'value', val: 'nodes' }),
  WithClause: plain({ ctes: 'nodes', recursive: 'value' }),
  CommonTableExpr: plain({
    ctename: 'value',
    aliascolnames: 'nodes',
    ctematerialized: 'value',
    ctequery: 'nodes',
  }),
  GroupingSet: plain({ kind: 'value', content: 'nodes' }),
  GroupingFunc: plain({ args: 'nodes' }),
  SubLink: {
    fields: { subLinkType: 'value', testexpr: 'nodes', operName: 'nodes', subselect: 'nodes' },
    check: ({ operName }, notes, byte) => noteOperator(operName, notes, byte),
  },
  // Of functions that return records: their columns.
  ColumnDef: plain({ colname: 'value', typeName: { is: 'TypeName' }, is_local: 'value' }),
};
