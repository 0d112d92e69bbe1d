import { queryFunctions } from './functions.ts';
import { type Grammar, type Notes, textIn, walk } from './grammar.ts';
import { type Fields, parseStatement } from './parse.ts';
import { expressionGrammar, queryGrammar } from './query-grammar.ts';
import { rlsGrammar, schemaGrammar } from './schema-grammar.ts';

/*
 * Decides whether SQL that a model wrote may run. `parse.ts` reads it with PostgreSQL's own parser, `grammar.ts` walks
 * the tree and refuses each node and field that is not listed in `query-grammar.ts` (queries and expressions) or
 * `schema-grammar.ts` (tables, indexes, policies); `functions.ts` lists the functions. `run.ts` runs and applies what
 * is allowed, after the database has checked the names that only it can resolve (docs/security/generated-sql.md).
 */

/** Why a statement is refused. */
export interface Reason {
  /** The rule that it breaks, for programs. */
  readonly rule:
    | 'empty'
    | 'too_long'
    | 'text'
    | 'syntax'
    | 'several_statements'
    | 'word'
    | 'statement'
    | 'clause'
    | 'schema'
    | 'function'
    | 'operator'
    | 'type'
    | 'role';
  /** For people. */
  readonly message: string;
  /** Where in the text, in characters from 1 on. */
  readonly at?: number;
}

/** Names that only a database can resolve. */
export interface UsedNames {
  /** Names of the server's own functions; a project may have functions of the same name. */
  readonly functions: readonly string[];
  /** `x.name` is a column, or a call of the function with x. */
  readonly fields: readonly string[];
  readonly operators: readonly string[];
  /** The objects that are created or changed, views and sequences included. */
  readonly targets: readonly string[];
}

export interface Allowed {
  readonly allowed: true;
  /** In capitals, e.g. `CREATE TABLE`. */
  readonly command: string;
  /** The tables that are made or changed, or read from; of policies their names, too. After a rename, the new name. */
  readonly objects: { readonly tables: readonly string[]; readonly policies: readonly string[] };
  readonly uses: UsedNames;
  /** It has to run outside a transaction: CREATE INDEX CONCURRENTLY. */
  readonly concurrently: boolean;
}

interface Refused {
  readonly allowed: false;
  /** At least one, in the order of the text. */
  readonly reasons: readonly Reason[];
}

export type Verdict = Allowed | Refused;

/** A reason whose position is still in bytes from 0 on, as the parser counts. */
export interface Finding extends Omit<Reason, 'at'> {
  readonly byte?: number | undefined;
}

const selectGrammar: Grammar = { ...expressionGrammar(queryFunctions), ...queryGrammar };

/** By kind of the statement: what it is called. Others are no statements of their own. */
const schemaCommands = {
  CreateStmt: 'CREATE TABLE',
  IndexStmt: 'CREATE INDEX',
  AlterTableStmt: 'ALTER TABLE',
  RenameStmt: 'ALTER TABLE',
};
const rlsCommands = {
  CreatePolicyStmt: 'CREATE POLICY',
  AlterPolicyStmt: 'ALTER POLICY',
  RenameStmt: 'ALTER POLICY',
  AlterTableStmt: 'ALTER TABLE',
};
const selectCommands = { SelectStmt: 'SELECT' };

interface Rules {
  readonly grammar: Grammar;
  readonly commands: Readonly<Record<string, string>>;
  readonly words: boolean;
  /** The allowed statements, for the message. */
  readonly instead: string;
}

const maxReasons = 10;

/** Characters from 1 on, out of bytes from 0 on. */
const characterAt = (sql: string, byte: number): number =>
  Array.from(Buffer.from(sql).subarray(0, byte).toString()).length + 1;

const refused = (sql: string, findings: readonly Finding[]): Refused => ({
  allowed: false,
  reasons: findings
    .toSorted((a, b) => (a.byte ?? 0) - (b.byte ?? 0))
    .slice(0, maxReasons)
    .map(({ rule, message, byte }): Reason => ({
      rule,
      message,
      ...(byte !== undefined && { at: characterAt(sql, byte) }),
    })),
});

const policiesOf = (kind: string, fields: Fields): string[] => {
  if (kind === 'CreatePolicyStmt' || kind === 'AlterPolicyStmt') return [textIn(fields, 'policy_name')];
  return kind === 'RenameStmt' && fields['renameType'] === 'OBJECT_POLICY' ? [textIn(fields, 'newname')] : [];
};

const tablesOf = (kind: string, fields: Fields, { tables }: Notes): string[] =>
  kind === 'RenameStmt' && fields['renameType'] === 'OBJECT_TABLE' ? [textIn(fields, 'newname')] : [...tables];

const usesOf = ({ functions, fields, operators, targets }: Notes) => ({
  targets: [...targets],
  functions: [...functions],
  fields: [...fields],
  operators: [...operators],
});

const check = (sql: string, { grammar, commands, words, instead }: Rules): Verdict => {
  const parsed = parseStatement(sql);
  if (!parsed.ok) return refused(sql, [parsed.finding]);
  const [[kind, fields] = ['', {}]] = Object.entries(parsed.statement);
  const wordFindings = words ? parsed.words : [];
  const command = Object.hasOwn(commands, kind) ? commands[kind] : undefined;
  if (command === undefined) {
    return refused(sql, [{ rule: 'statement', message: `Only ${instead} can be run here.`, byte: 0 }, ...wordFindings]);
  }
  const notes = walk(grammar, parsed.statement);
  const findings = [...wordFindings, ...notes.findings];
  if (findings.length > 0) return refused(sql, findings);
  const of = fields as Fields;
  const objects = { tables: tablesOf(kind, of, notes), policies: policiesOf(kind, of) };
  const concurrently = kind === 'IndexStmt' && of['concurrent'] === true;
  return { allowed: true, command, objects, uses: usesOf(notes), concurrently };
};

/** Whether a statement is one CREATE TABLE, CREATE INDEX or ALTER TABLE that changes the schema and nothing else. */
export const checkSchemaSql = (sql: string): Verdict =>
  check(sql, {
    grammar: schemaGrammar,
    commands: schemaCommands,
    words: true,
    instead: 'CREATE TABLE, CREATE INDEX and ALTER TABLE',
  });

/** Whether a statement makes or changes one policy, or switches row-level security on. */
export const checkRlsSql = (sql: string): Verdict =>
  check(sql, {
    grammar: rlsGrammar,
    commands: rlsCommands,
    words: true,
    instead: 'CREATE POLICY, ALTER POLICY and ALTER TABLE … ENABLE or FORCE ROW LEVEL SECURITY',
  });

/** Whether a statement is one query that only reads. */
export const checkSelectSql = (sql: string): Verdict =>
  check(sql, { grammar: selectGrammar, commands: selectCommands, words: false, instead: 'one SELECT' });
