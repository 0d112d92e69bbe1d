import type { Fields } from './parse.ts';
import type { Finding } from './sql-guard.ts';

/** The result of a walk. */
export class Notes {
  readonly findings: Finding[] = [];
  readonly functions = new Set<string>();
  readonly fields = new Set<string>();
  readonly operators = new Set<string>();
  readonly tables = new Set<string>();
  /** The tables that the statement creates or changes. */
  readonly targets = new Set<string>();
  /** Queries that others read from: in FROM and in WITH. */
  derived = 0;

  refuse(rule: Finding['rule'], message: string, byte?: number): void {
    this.findings.push({ rule, message, byte });
  }
}

/**
 * The allowed content of a node's field: `value` a number, a word or a constant; `nodes` one or several nodes, each
 * under the name of its kind; `is` the fields of one node, whose kind the parser does not repeat.
 */
export type FieldRule = 'value' | 'nodes' | { readonly is: string };

export interface NodeRule {
  readonly fields: Readonly<Record<string, FieldRule>>;
  /** Further conditions on the fields. */
  readonly check?: (fields: Fields, notes: Notes, byte: number | undefined) => void;
}

const wordsOf = (text: string): readonly string[] => text.split(/\s+/).filter((word) => word !== '');

/**
 * The fields that a node may have.
 * @param values names of fields with a value, with spaces between; `nodes` those of fields with nodes
 * @param single by field: the kind of the one node in it
 */
export const fieldsOf = (
  values: string,
  nodes = '',
  single: Readonly<Record<string, string>> = {},
): NodeRule['fields'] =>
  Object.fromEntries<FieldRule>([
    ...wordsOf(values).map((name) => [name, 'value'] as const),
    ...wordsOf(nodes).map((name) => [name, 'nodes'] as const),
    ...Object.entries(single).map(([name, is]) => [name, { is }] as const),
  ]);

/** A node without further conditions; see `fieldsOf`. */
export const node = (...fields: Parameters<typeof fieldsOf>): NodeRule => ({ fields: fieldsOf(...fields) });

/** By kind of node: what is not listed is refused, a kind as well as a field of it. */
export type Grammar = Readonly<Record<string, NodeRule>>;

interface Visit {
  readonly kind: string;
  readonly fields: Fields;
  readonly byte: number | undefined;
}

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;

/** `LockingClause` → `locking clause`. */
const readable = (name: string): string =>
  name
    .replace(/(Stmt|_?clause)$/i, '')
    .replaceAll('_', ' ')
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase();

/** How people call what is refused most. */
const known: Readonly<Record<string, string>> = {
  'SelectStmt.lockingClause': 'A lock on rows (FOR UPDATE, FOR SHARE) is not allowed.',
  'SelectStmt.intoClause': 'SELECT INTO is not allowed: it makes a table.',
  'CreateStmt.inhRelations': 'Inheritance and partitions are not allowed.',
  'CreateStmt.partbound': 'Partitions are not allowed.',
  'CreateStmt.partspec': 'Partitioned tables are not allowed.',
  'CreateStmt.tablespacename': 'TABLESPACE is not allowed.',
  'CreateStmt.options': 'Storage options (WITH) are not allowed.',
  'CreateStmt.accessMethod': 'USING is not allowed.',
  'IndexStmt.tableSpace': 'TABLESPACE is not allowed.',
  'Constraint.indexspace': 'TABLESPACE is not allowed.',
  'TypeName.setof': 'SETOF is not allowed.',
  'TypeName.pct_type': '%TYPE is not allowed.',
  TableLikeClause: 'LIKE is not allowed: name the columns.',
  CreateTableAsStmt: 'CREATE TABLE AS is not allowed: it reads data.',
  ParamRef: 'Parameters ($1) are not allowed: there are no values for them.',
  CurrentOfExpr: 'CURRENT OF is not allowed: there are no cursors.',
};

const refuseKind = (notes: Notes, kind: string, byte: number | undefined): void => {
  const isStatement = kind.endsWith('Stmt');
  const name = isStatement
    ? `A statement of the kind “${readable(kind)}”`
    : `What the parser calls “${readable(kind)}”`;
  notes.refuse(isStatement ? 'statement' : 'clause', known[kind] ?? `${name} is not allowed here.`, byte);
};

const refuseField = (notes: Notes, { kind, byte }: Visit, field: string): void =>
  notes.refuse(
    'clause',
    known[`${kind}.${field}`] ?? `“${readable(field)}” of “${readable(kind)}” is not allowed here.`,
    byte,
  );

/** Each node as `{Kind: fields}`; an empty object stands where an optional one is left out. */
const wrapped = (value: unknown, byte: number | undefined): Visit[] => {
  const nodes: readonly unknown[] = Array.isArray(value) ? value : [value];
  return nodes.flatMap((node) =>
    isObject(node) ? Object.entries(node).map(([kind, fields]) => ({ kind, fields: fields as Fields, byte })) : [],
  );
};

const placeOf = ({ fields, byte }: Visit): number | undefined =>
  typeof fields['location'] === 'number' && fields['location'] >= 0 ? fields['location'] : byte;

const visit = (grammar: Grammar, at: Visit, notes: Notes): Visit[] => {
  const rule = Object.hasOwn(grammar, at.kind) ? grammar[at.kind] : undefined;
  const here = { ...at, byte: placeOf(at) };
  if (rule === undefined) {
    refuseKind(notes, at.kind, here.byte);
    return [];
  }
  rule.check?.(at.fields, notes, here.byte);
  return Object.entries(at.fields).flatMap(([field, value]): Visit[] => {
    if (field === 'location') return [];
    const fieldRule = Object.hasOwn(rule.fields, field) ? rule.fields[field] : undefined;
    if (fieldRule === undefined) refuseField(notes, here, field);
    if (fieldRule === 'nodes') return wrapped(value, here.byte);
    return typeof fieldRule === 'object' ? [{ kind: fieldRule.is, fields: value as Fields, byte: here.byte }] : [];
  });
};

/** Goes through the whole tree, without recursion: it may be some thousand levels deep. */
export const walk = (grammar: Grammar, statement: Fields): Notes => {
  const notes = new Notes();
  const open = wrapped(statement, undefined);
  for (let at = open.pop(); at !== undefined; at = open.pop()) open.push(...visit(grammar, at, notes));
  return notes;
};

/** The texts of a list of String nodes. */
export const namesIn = (value: unknown): string[] =>
  Array.isArray(value)
    ? value.map((node: unknown) => {
        const string = isObject(node) ? node['String'] : undefined;
        return isObject(string) && typeof string['sval'] === 'string' ? string['sval'] : '';
      })
    : [];

/** The columns that an expression mentions, each by its last name. */
export const columnsIn = (expression: unknown): ReadonlySet<string> => {
  const columns = new Set<string>();
  const open = wrapped(expression, undefined);
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at.kind === 'ColumnRef') columns.add(namesIn(at.fields['fields']).at(-1) ?? '');
    else if (isObject(at.fields)) open.push(...Object.values(at.fields).flatMap((value) => wrapped(value, undefined)));
  }
  return columns;
};

export const textIn = (fields: Fields, field: string): string => {
  const value = fields[field];
  return typeof value === 'string' ? value : '';
};
