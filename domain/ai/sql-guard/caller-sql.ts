import { LRUCache } from 'lru-cache';
import { type Fields, parseStatement } from './parse.ts';

/*
 * SQL that runs with a caller's role and claims. Both are settings of the session, which SQL could change: SET ROLE and
 * RESET ROLE, set_config, an UPDATE of pg_settings, and whatever runs a text as SQL. So a statement is read by
 * PostgreSQL's own parser first, and taken when it reads or writes rows and calls none of these.
 */

const rowStatements: ReadonlySet<string> = new Set([
  'SelectStmt',
  'InsertStmt',
  'UpdateStmt',
  'DeleteStmt',
  'MergeStmt',
]);

/** Functions of the server and of its usual extensions that change a setting, or run a text as SQL. */
const refusedFunctions =
  /^(set_config|query_to_xml.*|cursor_to_xml.*|ts_stat|ts_rewrite|dblink.*|crosstab.*|connectby.*|normal_rand|lo_(im|ex)port)$/;

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;

const textOf = (node: unknown): string => {
  const text = isObject(node) && isObject(node['String']) ? node['String']['sval'] : undefined;
  return typeof text === 'string' ? text.toLowerCase() : '';
};

const functionOf = ({ funcname }: Fields): string => (Array.isArray(funcname) ? textOf(funcname.at(-1)) : '');

const isCatalog = (relation: unknown): boolean => {
  if (!isObject(relation)) return false;
  const { schemaname, relname } = relation;
  return schemaname === 'pg_catalog' || String(relname).toLowerCase().startsWith('pg_');
};

/** Whether the fields of a node of that kind are refused, and why. */
const reasonOf = (kind: string, fields: Fields): string | null => {
  if (kind === 'FuncCall' && refusedFunctions.test(functionOf(fields)))
    return `${functionOf(fields)} may not be called`;
  if (kind === 'intoClause' || kind === 'IntoClause') return 'SELECT INTO is not possible';
  const writes = kind !== 'SelectStmt' && rowStatements.has(kind);
  return writes && isCatalog(fields['relation']) ? 'the tables of the server cannot be changed' : null;
};

/** The first reason in a tree; its depth is bounded by the parser's limits. */
const firstReason = (node: unknown): string | null => {
  if (Array.isArray(node)) return node.reduce<string | null>((found, each) => found ?? firstReason(each), null);
  if (!isObject(node)) return null;
  for (const [name, value] of Object.entries(node)) {
    const reason = (isObject(value) && reasonOf(name, value)) || firstReason(value);
    if (reason !== null) return reason;
  }
  return null;
};

/** A refusal as the database would write it. */
export interface CallerRefusal {
  /** SQLSTATE. */
  readonly code: '42501' | '42601' | '54000';
  readonly message: string;
}

const codes = { syntax: '42601', too_long: '54000' } as const satisfies Record<string, CallerRefusal['code']>;

const notAsCaller = (why: string): CallerRefusal => ({
  code: '42501',
  message: `As the caller, ${why}; sdk.db may do that.`,
});

/** A text that the parser cannot read is refused, too: the server might read it otherwise. */
const read = (sql: string): CallerRefusal | null => {
  const parsed = parseStatement(sql);
  if (!parsed.ok) {
    const { rule, message } = parsed.finding;
    return { code: rule === 'too_long' ? codes.too_long : codes.syntax, message };
  }
  const [kind = ''] = Object.keys(parsed.statement);
  if (!rowStatements.has(kind)) return notAsCaller('only SELECT, INSERT, UPDATE, DELETE and MERGE are possible');
  const why = firstReason(parsed.statement);
  return why === null ? null : notAsCaller(why);
};

/** Reading a statement takes up to some ms, and functions repeat theirs. */
const verdicts = new LRUCache<string, { readonly refusal: CallerRefusal | null }>({
  max: 2000,
  maxSize: 8 * 1024 * 1024,
  sizeCalculation: (_, sql) => sql.length * 2 + 64,
});

/** Why a statement may not run as a caller; null when it may. */
export const refusedForCaller = (sql: string): CallerRefusal | null => {
  const known = verdicts.get(sql);
  if (known !== undefined) return known.refusal;
  const refusal = read(sql);
  verdicts.set(sql, { refusal });
  return refusal;
};
