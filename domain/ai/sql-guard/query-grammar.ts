import { type Grammar, type NodeRule, type Notes, fieldsOf, namesIn, node, textIn } from './grammar.ts';
import type { Fields } from './parse.ts';

/** `pg_catalog.lower` and `lower` are one; anything else keeps its schema. */
const bare = (names: readonly string[]): string => (names[0] === 'pg_catalog' ? names.slice(1) : names).join('.');

const widest = 1000;
const padding = new Set(['lpad', 'rpad']);

/**
 * A number that stands in the text and is not too large: 0 is left out by the parser, and what is large is no `ival`.
 */
const isSmallWidth = (args: unknown): boolean => {
  const width = Array.isArray(args) ? (args[1] as { A_Const?: { ival?: { ival?: number } } } | undefined) : undefined;
  const number = width?.A_Const?.ival;
  return number !== undefined && (number.ival ?? 0) <= widest;
};

const functionCheck =
  (allowed: ReadonlySet<string>): NonNullable<NodeRule['check']> =>
  ({ funcname, args }, notes, byte) => {
    const names = namesIn(funcname);
    const name = bare(names);
    if (!allowed.has(name)) {
      return notes.refuse('function', `The function ${name} is not among those that are allowed.`, byte);
    }
    if (padding.has(name) && !isSmallWidth(args)) {
      notes.refuse('function', `The width that ${name} makes has to be a number of at most ${widest}.`, byte);
    }
    if (names.length === 1) notes.functions.add(name);
  };

/** An operator is a function, too. */
export const noteOperator = (value: unknown, notes: Notes, byte: number | undefined): void => {
  const names = namesIn(value);
  const name = bare(names);
  if (name.includes('.')) notes.refuse('operator', `The operator ${name} is not one of the server’s own.`, byte);
  else if (names.length === 1) notes.operators.add(name);
};

/** The functions behind operators, which can be called by their names all the same. */
const noteImplied = (notes: Notes, operators: readonly string[]): void => {
  for (const operator of operators) notes.operators.add(operator);
};

/** The forms of BETWEEN and NOT BETWEEN. */
const within = ['>=', '<='];
const beyond = ['<', '>'];

const typeSchemas = new Set(['pg_catalog', 'public', 'extensions']);

/** Two of them of 60 kB are compared point by point for minutes, and the server cannot interrupt it. */
const endlessTypes = new Set(['path', '_path', 'polygon', '_polygon']);

const checkType = ({ names }: Fields, notes: Notes, byte: number | undefined): void => {
  const all = namesIn(names);
  const name = all.at(-1) ?? '';
  if (endlessTypes.has(name)) notes.refuse('type', `The type ${name} is not allowed.`, byte);
  const [schema = '', type] = all;
  if (type !== undefined && !typeSchemas.has(schema)) {
    notes.refuse('type', `Types of the schema ${schema} are not allowed.`, byte);
  }
};

/** `x.name` and `(…).name`: where x has no such column, the server calls the function `name` with it. */
const noteFields = (names: readonly string[], notes: Notes): void => {
  for (const name of names) if (name !== '') notes.fields.add(name);
};

const columnRef: NodeRule = {
  fields: fieldsOf('', 'fields'),
  check: ({ fields }, notes) => noteFields(namesIn(fields).slice(1), notes),
};

const indirection: NodeRule = {
  fields: fieldsOf('', 'arg indirection'),
  check: (fields, notes) => noteFields(namesIn(fields['indirection']), notes),
};

const windowDef = node('name refname frameOptions', 'partitionClause orderClause startOffset endOffset');

const functionCall = (allowed: ReadonlySet<string>): NodeRule => ({
  fields: fieldsOf(
    'agg_within_group agg_star agg_distinct func_variadic funcformat',
    'funcname args agg_order agg_filter',
    { over: 'WindowDef' },
  ),
  check: functionCheck(allowed),
});

const operatorCall: NodeRule = {
  fields: fieldsOf('kind rexpr_list_start rexpr_list_end', 'name lexpr rexpr'),
  check: ({ name, kind }, notes, byte) => {
    // BETWEEN and its kin stand where the operator's name would.
    if (typeof kind === 'string' && kind.includes('BETWEEN'))
      noteImplied(notes, kind.includes('NOT') ? beyond : within);
    else noteOperator(name, notes, byte);
  },
};

const constants: Grammar = {
  A_Const: node('isnull ival fval boolval sval bsval'),
  String: node('sval'),
  Integer: node('ival'),
  Float: node('fval'),
  Boolean: node('boolval'),
  List: node('', 'items'),
  A_Star: node(''),
};

/**
 * Values: constants, columns, operators, conditions and harmless functions.
 * @param functions those that may be called
 */
export const expressionGrammar = (functions: ReadonlySet<string>): Grammar => ({
  ...constants,
  ColumnRef: columnRef,
  A_Indirection: indirection,
  A_Indices: node('is_slice', 'lidx uidx'),
  A_Expr: operatorCall,
  A_ArrayExpr: node('list_start list_end', 'elements'),
  BoolExpr: node('boolop', 'args'),
  NullTest: node('nulltesttype argisrow', 'arg'),
  BooleanTest: node('booltesttype', 'arg'),
  CaseExpr: {
    fields: fieldsOf('', 'arg args defresult'),
    // CASE x WHEN y asks whether x = y.
    check: ({ arg }, notes) => noteImplied(notes, arg === undefined ? [] : ['=']),
  },
  CaseWhen: node('', 'expr result'),
  CoalesceExpr: node('', 'args'),
  MinMaxExpr: node('op', 'args'),
  RowExpr: node('row_format', 'args'),
  CollateClause: node('', 'arg collname'),
  SQLValueFunction: node('op typmod'),
  NamedArgExpr: node('name argnumber', 'arg'),
  FuncCall: functionCall(functions),
  WindowDef: windowDef,
  SortBy: node('sortby_dir sortby_nulls', 'node'),
  TypeCast: node('', 'arg', { typeName: 'TypeName' }),
  TypeName: {
    fields: fieldsOf('typemod', 'names typmods arrayBounds'),
    check: checkType,
  },
});

/** A few digits raised by a few make 100,000, and the server computes with them for as long as it takes. */
const powerless: NodeRule = {
  ...operatorCall,
  check: (fields, notes, byte) => {
    operatorCall.check?.(fields, notes, byte);
    if (namesIn(fields['name']).at(-1) !== '^') return;
    notes.refuse('operator', 'The operator ^ is not allowed in what stays in the database.', byte);
  },
};

/** Expressions that stay in the database, and are computed whenever somebody reads or writes. */
export const storedGrammar = (functions: ReadonlySet<string>): Grammar => ({
  ...expressionGrammar(functions),
  A_Expr: powerless,
});

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

const select = node(
  'groupDistinct limitOption op all',
  `
      distinctClause targetList fromClause whereClause groupClause havingClause windowClause valuesLists
      sortClause limitOffset limitCount`,
  { withClause: 'WithClause', larg: 'SelectStmt', rarg: 'SelectStmt' },
);

const fromQuery = fieldsOf('lateral', 'subquery', { alias: 'Alias' });
const withQuery = fieldsOf('ctename ctematerialized', 'aliascolnames ctequery');

const sources: Grammar = {
  RangeVar: {
    fields: fieldsOf('schemaname relname inh relpersistence', '', { alias: 'Alias' }),
    check: checkRead,
  },
  RangeSubselect: { fields: fromQuery },
  RangeFunction: node('lateral ordinality is_rowsfrom', 'functions coldeflist', { alias: 'Alias' }),
  JoinExpr: {
    fields: fieldsOf('jointype isNatural', 'larg rarg usingClause quals', {
      join_using_alias: 'Alias',
      alias: 'Alias',
    }),
    // USING and NATURAL ask whether columns are equal.
    check: ({ usingClause, isNatural }, notes) =>
      noteImplied(notes, usingClause !== undefined || isNatural === true ? ['='] : []),
  },
  Alias: node('aliasname', 'colnames'),
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
  ResTarget: node('name', 'val'),
  WithClause: node('recursive', 'ctes'),
  CommonTableExpr: { fields: withQuery },
  GroupingSet: node('kind', 'content'),
  GroupingFunc: node('', 'args'),
  SubLink: {
    fields: fieldsOf('subLinkType', 'testexpr operName subselect'),
    check: ({ operName, testexpr }, notes, byte) => {
      // x IN (SELECT …) names none and means =.
      if (testexpr !== undefined && operName === undefined) noteImplied(notes, ['=']);
      else noteOperator(operName, notes, byte);
    },
  },
  // The column definitions of functions that return records.
  ColumnDef: node('colname is_local', '', { typeName: 'TypeName' }),
};

/**
 * The queries of a policy. There is no WITH RECURSIVE, and few stand in FROM and WITH: the planner writes the columns
 * of one into the next, so that thirty with `x + x` would be a thousand million terms, and it cannot be interrupted.
 */
export const policyQueryGrammar: Grammar = {
  ...queryGrammar,
  RangeSubselect: { fields: fromQuery, check: countDerived },
  CommonTableExpr: { fields: withQuery, check: countDerived },
  WithClause: node('', 'ctes'),
};
