import { noteOperator, policyQueryGrammar, storedGrammar } from './query-grammar.ts';
import { requestFunctions, storedFunctions } from './functions.ts';
import { type Grammar, type NodeRule, type Notes, columnsIn, namesIn, textIn } from './grammar.ts';
import type { Fields } from './parse.ts';

const plain = (fields: NodeRule['fields']): NodeRule => ({ fields });

/** A permanent table of schema public; of another database there is none. */
const tableRule: NodeRule = {
  fields: { schemaname: 'value', relname: 'value', inh: 'value', relpersistence: 'value' },
  check: (relation, notes, byte) => {
    const schema = textIn(relation, 'schemaname');
    if (schema !== '' && schema !== 'public') {
      notes.refuse('schema', `Only tables of schema public can be made or changed, not of ${schema}.`, byte);
    }
    if (relation['relpersistence'] !== 'p') {
      notes.refuse('clause', 'Only permanent tables are allowed, not TEMPORARY or UNLOGGED ones.', byte);
    }
    notes.tables.add(textIn(relation, 'relname'));
    notes.targets.add(textIn(relation, 'relname'));
  },
};

const oneOf =
  (field: string, allowed: ReadonlySet<string>, message: (value: string) => string): NonNullable<NodeRule['check']> =>
  (fields, notes, byte) => {
    const value = textIn(fields, field);
    if (!allowed.has(value)) notes.refuse('clause', message(value), byte);
  };

const changes = new Set(
  `AT_AddColumn AT_ColumnDefault AT_SetNotNull AT_SetExpression AT_AlterColumnType AT_AddConstraint AT_AlterConstraint
   AT_ValidateConstraint AT_AddIdentity AT_SetIdentity AT_EnableRowSecurity AT_ForceRowSecurity`.split(/\s+/),
);

/** `AT_SetTableSpace` → `set table space`. */
const readableChange = (subtype: string): string =>
  subtype
    .replace(/^AT_/, '')
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase();

const checkSubtype = oneOf(
  'subtype',
  changes,
  (subtype) =>
    `ALTER TABLE may add and change columns and constraints, rename, and switch row-level security on; it may not “${readableChange(subtype)}”.`,
);

/** Whether USING does not so much as mention the column. */
const losesColumn = ({ name, def }: Fields): boolean => {
  const using = (def as { ColumnDef?: Fields } | undefined)?.ColumnDef?.['raw_default'];
  return using !== undefined && !columnsIn(using).has(String(name));
};

const change: NodeRule = {
  fields: { subtype: 'value', name: 'value', def: 'nodes', behavior: 'value', missing_ok: 'value' },
  check: (command, notes, byte) => {
    checkSubtype(command, notes, byte);
    if (command['subtype'] === 'AT_AlterColumnType' && losesColumn(command)) {
      notes.refuse('clause', 'USING has to be made of the column itself: what is in it would be lost.', byte);
    }
  },
};

const checkTable = ({ objtype }: Fields, notes: Notes, byte: number | undefined): void => {
  if (objtype !== 'OBJECT_TABLE') notes.refuse('statement', 'Of what can be altered, only tables are allowed.', byte);
};

const alterTable: NodeRule = {
  fields: { relation: { is: 'TargetTable' }, cmds: 'nodes', objtype: 'value', missing_ok: 'value' },
  check: checkTable,
};

const renamed = new Set(['OBJECT_TABLE', 'OBJECT_COLUMN', 'OBJECT_TABCONSTRAINT']);

/** The kinds of objects that ALTER … RENAME may name. */
const renameFields = {
  renameType: 'value',
  relationType: 'value',
  relation: { is: 'TargetTable' },
  subname: 'value',
  newname: 'value',
  behavior: 'value',
  missing_ok: 'value',
} as const;

const rename: NodeRule = {
  fields: renameFields,
  check: ({ renameType, relationType }, notes, byte) => {
    const isColumn = renameType === 'OBJECT_COLUMN';
    if (!renamed.has(String(renameType)) || (isColumn && relationType !== 'OBJECT_TABLE')) {
      notes.refuse('statement', 'Only tables, their columns and constraints can be renamed here.', byte);
    }
  },
};

const methods = new Set(['btree', 'hash', 'gin', 'gist', 'spgist', 'brin', 'hnsw', 'ivfflat']);

/** How pgvector builds its indexes; in which bounds, it says itself. Other storage options stay the server's own. */
const indexOptions: Readonly<Record<string, readonly string[]>> = {
  hnsw: ['m', 'ef_construction'],
  ivfflat: ['lists'],
};

interface Option {
  readonly DefElem?: Fields;
}

const isWhole = (arg: unknown): boolean => typeof arg === 'object' && arg !== null && 'Integer' in arg;

const checkIndexOptions = ({ accessMethod, options }: Fields, notes: Notes, byte: number | undefined): void => {
  if (options === undefined) return;
  const allowed = indexOptions[String(accessMethod)] ?? [];
  if (allowed.length === 0) return notes.refuse('clause', 'Storage options (WITH) are not allowed.', byte);
  for (const { DefElem: { defname, defnamespace, arg } = {} } of options as readonly Option[]) {
    const isKnown = defnamespace === undefined && allowed.includes(String(defname));
    if (isKnown && isWhole(arg)) continue;
    const message = `WITH may set ${allowed.join(' and ')} of an index of the kind ${String(accessMethod)}, to whole numbers.`;
    notes.refuse('clause', message, byte);
  }
};

const checkMethod = oneOf('accessMethod', methods, (method) => `Indexes of the kind ${method} are not allowed.`);

const createIndex: NodeRule = {
  fields: {
    concurrent: 'value',
    // Read by the check: in other places the same kind of node stands for options of sequences.
    options: 'value',
    idxname: 'value',
    relation: { is: 'TargetTable' },
    accessMethod: 'value',
    indexParams: 'nodes',
    indexIncludingParams: 'nodes',
    whereClause: 'nodes',
    unique: 'value',
    nulls_not_distinct: 'value',
    if_not_exists: 'value',
  },
  check: (fields, notes, byte) => {
    checkMethod(fields, notes, byte);
    checkIndexOptions(fields, notes, byte);
  },
};

const sequenceOptions = new Set([
  'start',
  'increment',
  'minvalue',
  'maxvalue',
  'cache',
  'cycle',
  'generated',
  'restart',
]);

const constraint: NodeRule = {
  fields: {
    contype: 'value',
    conname: 'value',
    deferrable: 'value',
    initdeferred: 'value',
    initially_valid: 'value',
    is_enforced: 'value',
    is_no_inherit: 'value',
    skip_validation: 'value',
    raw_expr: 'nodes',
    generated_when: 'value',
    generated_kind: 'value',
    nulls_not_distinct: 'value',
    without_overlaps: 'value',
    keys: 'nodes',
    including: 'nodes',
    exclusions: 'nodes',
    options: 'nodes',
    indexname: 'value',
    access_method: 'value',
    where_clause: 'nodes',
    pktable: { is: 'ReferencedTable' },
    fk_attrs: 'nodes',
    pk_attrs: 'nodes',
    fk_with_period: 'value',
    pk_with_period: 'value',
    fk_matchtype: 'value',
    fk_upd_action: 'value',
    fk_del_action: 'value',
    fk_del_set_cols: 'nodes',
  },
  check: ({ exclusions }, notes, byte) => {
    if (!Array.isArray(exclusions)) return;
    // Pairs of what is compared and the operator.
    for (const pair of exclusions as { List?: { items?: { List?: { items?: unknown } }[] } }[]) {
      noteOperator(pair.List?.items?.[1]?.List?.items, notes, byte);
    }
  },
};

const columnDef = plain({
  colname: 'value',
  typeName: { is: 'TypeName' },
  is_local: 'value',
  is_not_null: 'value',
  // After ALTER COLUMN … TYPE it is what USING says.
  raw_default: 'nodes',
  collClause: { is: 'CollateClause' },
  constraints: 'nodes',
});

const createTable: NodeRule = {
  fields: {
    relation: { is: 'TargetTable' },
    tableElts: 'nodes',
    oncommit: 'value',
    if_not_exists: 'value',
  },
  check: oneOf('oncommit', new Set(['ONCOMMIT_NOOP']), () => 'ON COMMIT is not allowed.'),
};

const checkOpclass = ({ opclass }: Fields, notes: Notes, byte: number | undefined): void => {
  const [schema = '', name] = namesIn(opclass);
  if (name !== undefined && !['pg_catalog', 'public', 'extensions'].includes(schema)) {
    notes.refuse('schema', `Operator classes of the schema ${schema} are not allowed.`, byte);
  }
};

/** CREATE TABLE, CREATE INDEX and what of ALTER TABLE concerns columns, constraints, names and row-level security. */
export const schemaGrammar: Grammar = {
  ...storedGrammar(storedFunctions),
  CreateStmt: createTable,
  IndexStmt: createIndex,
  AlterTableStmt: alterTable,
  RenameStmt: rename,
  TargetTable: tableRule,
  ReferencedTable: {
    fields: tableRule.fields,
    check: ({ schemaname }, notes, byte) => {
      if (schemaname === undefined || schemaname === 'public') return;
      notes.refuse('schema', 'Foreign keys can refer to tables of schema public only.', byte);
    },
  },
  AlterTableCmd: change,
  ATAlterConstraint: plain({
    conname: 'value',
    is_enforced: 'value',
    alterEnforceability: 'value',
    alterDeferrability: 'value',
    deferrable: 'value',
    initdeferred: 'value',
  }),
  ColumnDef: columnDef,
  Constraint: constraint,
  DefElem: {
    fields: { defname: 'value', arg: 'nodes', defaction: 'value' },
    check: oneOf('defname', sequenceOptions, (name) => `The option ${name} is not allowed.`),
  },
  IndexElem: {
    fields: {
      name: 'value',
      expr: 'nodes',
      indexcolname: 'value',
      collation: 'nodes',
      opclass: 'nodes',
      ordering: 'value',
      nulls_ordering: 'value',
    },
    check: checkOpclass,
  },
};

const roles = new Set(['anon', 'authenticated']);
const switches = new Set(['AT_EnableRowSecurity', 'AT_ForceRowSecurity']);

const policy = {
  policy_name: 'value',
  table: { is: 'TargetTable' },
  roles: 'nodes',
  qual: 'nodes',
  with_check: 'nodes',
} as const;

/** CREATE POLICY, ALTER POLICY, and switching row-level security on. */
export const rlsGrammar: Grammar = {
  ...storedGrammar(new Set([...storedFunctions, ...requestFunctions])),
  ...policyQueryGrammar,
  CreatePolicyStmt: plain({ ...policy, cmd_name: 'value', permissive: 'value' }),
  AlterPolicyStmt: plain(policy),
  TargetTable: tableRule,
  RoleSpec: {
    fields: { roletype: 'value', rolename: 'value' },
    check: (spec, notes, byte) => {
      const isPublic = spec['roletype'] === 'ROLESPEC_PUBLIC';
      if (isPublic || (spec['roletype'] === 'ROLESPEC_CSTRING' && roles.has(textIn(spec, 'rolename')))) return;
      notes.refuse('role', 'A policy can be for public, anon and authenticated.', byte);
    },
  },
  RenameStmt: {
    fields: renameFields,
    check: ({ renameType }, notes, byte) => {
      if (renameType !== 'OBJECT_POLICY') notes.refuse('statement', 'Only policies can be renamed here.', byte);
    },
  },
  AlterTableStmt: alterTable,
  AlterTableCmd: {
    fields: { subtype: 'value', behavior: 'value' },
    check: (command, notes, byte) => {
      if (switches.has(textIn(command, 'subtype'))) return;
      notes.refuse('clause', 'Of ALTER TABLE only ENABLE and FORCE ROW LEVEL SECURITY are allowed here.', byte);
    },
  },
};
