import { noteOperator, policyQueryGrammar, storedGrammar } from './query-grammar.ts';
import { requestFunctions, storedFunctions } from './functions.ts';
import { type Grammar, type NodeRule, type Notes, columnsIn, fieldsOf, namesIn, node, textIn } from './grammar.ts';
import type { Fields } from './parse.ts';

/** A permanent table of schema public; of another database there is none. */
const tableRule: NodeRule = {
  fields: fieldsOf('schemaname relname inh relpersistence'),
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
    'ALTER TABLE may add and change columns and constraints, rename, and switch row-level security on; ' +
    `it may not “${readableChange(subtype)}”.`,
);

/** Whether USING does not so much as mention the column. */
const losesColumn = ({ name, def }: Fields): boolean => {
  const using = (def as { ColumnDef?: Fields } | undefined)?.ColumnDef?.['raw_default'];
  return using !== undefined && !columnsIn(using).has(String(name));
};

const change: NodeRule = {
  fields: fieldsOf('subtype name behavior missing_ok', 'def'),
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
  fields: fieldsOf('objtype missing_ok', 'cmds', { relation: 'TargetTable' }),
  check: checkTable,
};

const renamed = new Set(['OBJECT_TABLE', 'OBJECT_COLUMN', 'OBJECT_TABCONSTRAINT']);

/** The kinds of objects that ALTER … RENAME may name. */
const renameFields = fieldsOf('renameType relationType subname newname behavior missing_ok', '', {
  relation: 'TargetTable',
});

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
    const names = allowed.join(' and ');
    const message = `WITH may set ${names} of an index of the kind ${String(accessMethod)}, to whole numbers.`;
    notes.refuse('clause', message, byte);
  }
};

const checkMethod = oneOf('accessMethod', methods, (method) => `Indexes of the kind ${method} are not allowed.`);

const createIndex: NodeRule = {
  fields: fieldsOf(
    'concurrent options idxname accessMethod unique nulls_not_distinct if_not_exists',
    'indexParams indexIncludingParams whereClause',
    { relation: 'TargetTable' },
  ),
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
  fields: fieldsOf(
    `
      contype conname deferrable initdeferred initially_valid is_enforced is_no_inherit skip_validation
      generated_when generated_kind nulls_not_distinct without_overlaps indexname access_method
      fk_with_period pk_with_period fk_matchtype fk_upd_action fk_del_action`,
    'raw_expr keys including exclusions options where_clause fk_attrs pk_attrs fk_del_set_cols',
    { pktable: 'ReferencedTable' },
  ),
  check: ({ exclusions }, notes, byte) => {
    if (!Array.isArray(exclusions)) return;
    // Pairs of what is compared and the operator.
    for (const pair of exclusions as { List?: { items?: { List?: { items?: unknown } }[] } }[]) {
      noteOperator(pair.List?.items?.[1]?.List?.items, notes, byte);
    }
  },
};

const columnDef = node('colname is_local is_not_null', 'raw_default constraints', {
  typeName: 'TypeName',
  collClause: 'CollateClause',
});

const createTable: NodeRule = {
  fields: fieldsOf('oncommit if_not_exists', 'tableElts', { relation: 'TargetTable' }),
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
  ATAlterConstraint: node('conname is_enforced alterEnforceability alterDeferrability deferrable initdeferred'),
  ColumnDef: columnDef,
  Constraint: constraint,
  DefElem: {
    fields: fieldsOf('defname defaction', 'arg'),
    check: oneOf('defname', sequenceOptions, (name) => `The option ${name} is not allowed.`),
  },
  IndexElem: {
    fields: fieldsOf('name indexcolname ordering nulls_ordering', 'expr collation opclass'),
    check: checkOpclass,
  },
};

const roles = new Set(['anon', 'authenticated']);
const switches = new Set(['AT_EnableRowSecurity', 'AT_ForceRowSecurity']);

const policy = fieldsOf('policy_name', 'roles qual with_check', { table: 'TargetTable' });

/** CREATE POLICY, ALTER POLICY, and switching row-level security on. */
export const rlsGrammar: Grammar = {
  ...storedGrammar(new Set([...storedFunctions, ...requestFunctions])),
  ...policyQueryGrammar,
  CreatePolicyStmt: { fields: { ...policy, ...fieldsOf('cmd_name permissive') } },
  AlterPolicyStmt: { fields: policy },
  TargetTable: tableRule,
  RoleSpec: {
    fields: fieldsOf('roletype rolename'),
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
    fields: fieldsOf('subtype behavior'),
    check: (command, notes, byte) => {
      if (switches.has(textIn(command, 'subtype'))) return;
      notes.refuse('clause', 'Of ALTER TABLE only ENABLE and FORCE ROW LEVEL SECURITY are allowed here.', byte);
    },
  },
};
