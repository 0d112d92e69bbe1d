import { type Alias, type Catalog, type Item, isOwn, ranks, read } from './item.ts';

interface TableRow {
  readonly oid: number;
  readonly name: string;
  readonly unlogged: boolean;
  readonly partition: boolean;
  readonly partition_key: string | null;
  readonly parents: string | null;
  readonly options: string | null;
}

interface ColumnRow {
  readonly table: number;
  readonly name: string;
  readonly type: string;
  readonly collation: string | null;
  readonly not_null: boolean;
  readonly identity: '' | 'a' | 'd';
  readonly sequence: string | null;
  readonly sequence_oid: number | null;
  readonly generated: string;
  readonly local: boolean;
  readonly default: string | null;
  readonly default_oid: number | null;
  /** It calls a function of the project's, which may itself need the table. */
  readonly calls: boolean;
  /** The definition of an inherited column: whether a parent has the same. */
  readonly as_parent: boolean;
  readonly parent_not_null: boolean;
}

interface ConstraintRow {
  readonly oid: number;
  readonly table: number;
  readonly table_name: string;
  readonly name: string;
  readonly kind: string;
  readonly definition: string;
  readonly local: boolean;
  readonly copied: boolean;
  readonly apart: boolean;
  readonly index: number;
}

const ofProject = (table: string): string =>
  `${table}.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', `${table}.oid`)}`;

const tablesSql = `
  select c.oid, c.oid::regclass::text as name, c.relpersistence = 'u' as unlogged, c.relispartition as partition,
    pg_get_partkeydef(c.oid) as partition_key, array_to_string(c.reloptions, ', ') as options,
    (select string_agg(i.inhparent::regclass::text, ', ' order by i.inhseqno) from pg_inherits i
      where i.inhrelid = c.oid and not c.relispartition) as parents
  from pg_class c where c.relkind in ('r', 'p') and c.relpersistence <> 't' and ${ofProject('c')}`;

const callsOwnFunction = (catalog: string, oid: string): string =>
  `exists (select from pg_depend f where f.classid = '${catalog}'::regclass and f.objid = ${oid} and f.refclassid = 'pg_proc'::regclass)`;

const columnsSql = `
  select a.attrelid as table, quote_ident(a.attname) as name, format_type(a.atttypid, a.atttypmod) as type,
    case when a.attcollation <> t.typcollation then format('%I.%I', cn.nspname, co.collname) end as collation,
    a.attnotnull as not_null, a.attidentity as identity, a.attgenerated as generated, a.attislocal as local,
    pg_get_expr(d.adbin, d.adrelid) as default, d.oid as default_oid, ${callsOwnFunction('pg_attrdef', 'd.oid')} as calls,
    s.seqrelid as sequence_oid,
    concat('sequence name ', s.seqrelid::regclass, ' increment by ', s.seqincrement, ' minvalue ', s.seqmin, ' maxvalue ', s.seqmax,
      ' start with ', s.seqstart, ' cache ', s.seqcache, case when s.seqcycle then ' cycle' end) as sequence,
    coalesce(inherited.same, false) as as_parent, coalesce(inherited.not_null, false) as parent_not_null
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  left join pg_collation co on co.oid = a.attcollation left join pg_namespace cn on cn.oid = co.collnamespace
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_depend own on a.attidentity <> '' and own.refclassid = 'pg_class'::regclass and own.refobjid = a.attrelid
    and own.refobjsubid = a.attnum and own.classid = 'pg_class'::regclass and own.deptype = 'i'
  left join pg_sequence s on s.seqrelid = own.objid
  left join lateral (
    select bool_or(pg_get_expr(pd.adbin, pd.adrelid) is not distinct from pg_get_expr(d.adbin, d.adrelid)) as same,
      bool_or(p.attnotnull) as not_null
    from pg_inherits i join pg_attribute p on p.attrelid = i.inhparent and p.attname = a.attname and not p.attisdropped
    left join pg_attrdef pd on pd.adrelid = p.attrelid and pd.adnum = p.attnum
    where i.inhrelid = a.attrelid) inherited on true
  where c.relkind in ('r', 'p') and ${ofProject('c')}
  order by a.attrelid, a.attnum`;

const constraintsSql = `
  select k.oid, k.conrelid as table, k.conrelid::regclass::text as table_name, quote_ident(k.conname) as name,
    k.contype as kind, pg_get_constraintdef(k.oid) as definition, k.conislocal as local, k.conparentid <> 0 as copied,
    not k.convalidated or ${callsOwnFunction('pg_constraint', 'k.oid')} as apart, k.conindid as index
  from pg_constraint k join pg_class c on c.oid = k.conrelid
  where k.contype in ('p', 'u', 'x', 'c', 'f') and c.relkind in ('r', 'p') and ${ofProject('c')}
  order by k.conrelid, array_position('{p,u,x,c,f}'::"char"[], k.contype), k.conname`;

interface Parts {
  readonly columns: readonly ColumnRow[];
  readonly constraints: readonly ConstraintRow[];
}

// As long as it is not part of its parent, a partition is a table of its own, with all that it must have.
const isWritten = ({ partition }: TableRow, column: ColumnRow): boolean => partition || column.local;

const defaultOf = (column: ColumnRow): string => {
  if (column.identity !== '') {
    return ` generated ${column.identity === 'a' ? 'always' : 'by default'} as identity (${column.sequence})`;
  }
  if (column.default === null) return '';
  if (column.generated !== '') {
    return ` generated always as (${column.default}) ${column.generated === 's' ? 'stored' : 'virtual'}`;
  }
  return column.calls ? '' : ` default ${column.default}`;
};

// An identity belongs to the partitioned table alone; its partitions take it over.
const columnLine = (table: TableRow, column: ColumnRow): string => {
  const identityOfParent = table.partition && column.identity !== '';
  const collation = column.collation === null ? '' : ` collate ${column.collation}`;
  const notNull = column.not_null ? ' not null' : '';
  return `  ${column.name} ${column.type}${collation}${identityOfParent ? '' : defaultOf(column)}${notNull}`;
};

const isInline = (table: TableRow, { kind, local, copied, apart }: ConstraintRow): boolean =>
  kind !== 'f' && !apart && (table.partition || (local && !copied));

const tableItem = (table: TableRow, { columns, constraints }: Parts): Item => {
  const lines = [
    ...columns.filter((column) => isWritten(table, column)).map((column) => columnLine(table, column)),
    ...constraints
      .filter((c) => isInline(table, c))
      .map(({ name, definition }) => `  constraint ${name} ${definition}`),
  ];
  const sql = [
    `create ${table.unlogged ? 'unlogged ' : ''}table ${table.name} (${lines.length > 0 ? `\n${lines.join(',\n')}\n` : ''})`,
    table.parents === null ? '' : ` inherits (${table.parents})`,
    table.partition_key === null ? '' : ` partition by ${table.partition_key}`,
    table.options === null ? '' : ` with (${table.options})`,
  ].join('');
  return { key: `pg_class:${table.oid}`, rank: ranks.table, name: table.name, sql };
};

const inheritedChange = (table: TableRow, column: ColumnRow): string[] => {
  if (isWritten(table, column) || column.generated !== '') return [];
  const change = `alter table only ${table.name} alter column ${column.name}`;
  const value = column.default === null ? 'drop default' : `set default ${column.default}`;
  return [
    ...(column.as_parent ? [] : [`${change} ${value}`]),
    ...(column.not_null && !column.parent_not_null ? [`${change} set not null`] : []),
  ];
};

/** Defaults that stand apart from their table. */
const defaultItems = (table: TableRow, columns: readonly ColumnRow[]): Item[] =>
  columns.flatMap((column) => {
    const later = column.calls && column.generated === '' && isWritten(table, column);
    const own = later
      ? [`alter table only ${table.name} alter column ${column.name} set default ${column.default}`]
      : [];
    return [...own, ...inheritedChange(table, column)].map((sql, index) => ({
      key: later && index === 0 ? `pg_attrdef:${column.default_oid}` : `change:${table.oid}:${column.name}:${index}`,
      rank: ranks.default,
      name: `${table.name}.${column.name}`,
      sql,
    }));
  });

const constraintItems = (table: TableRow, constraints: readonly ConstraintRow[]): Item[] =>
  constraints
    .filter((c) => !isInline(table, c) && !c.copied && (c.kind === 'f' || c.apart) && (c.local || table.partition))
    .map(({ oid, name, kind, definition }) => ({
      key: `pg_constraint:${oid}`,
      rank: kind === 'f' ? ranks.reference : ranks.constraint,
      name: `${table.name}.${name}`,
      sql: `alter table ${table.name} add constraint ${name} ${definition}`,
    }));

const aliasesOf = (table: TableRow, { columns, constraints }: Parts): Alias[] => {
  const of = `pg_class:${table.oid}`;
  const inline = constraints.filter((c) => isInline(table, c));
  return [
    ...inline.map(({ oid }) => ({ key: `pg_constraint:${oid}`, of })),
    ...inline.filter(({ index }) => index !== 0).map(({ index }) => ({ key: `pg_class:${index}`, of })),
    ...columns
      .filter((c) => c.default_oid !== null && !(c.calls && c.generated === ''))
      .map((c) => ({ key: `pg_attrdef:${c.default_oid}`, of })),
    ...columns.filter((c) => c.sequence_oid !== null).map((c) => ({ key: `pg_class:${c.sequence_oid}`, of })),
  ];
};

/** Tables with their columns, defaults and constraints. */
export const tableItems = async (catalog: Catalog): Promise<{ items: Item[]; aliases: Alias[] }> => {
  const tables = await read<TableRow>(catalog, tablesSql);
  const columns = Map.groupBy(await read<ColumnRow>(catalog, columnsSql), (row) => row.table);
  const constraints = Map.groupBy(await read<ConstraintRow>(catalog, constraintsSql), (row) => row.table);
  const partsOf = ({ oid }: TableRow): Parts => ({
    columns: columns.get(oid) ?? [],
    constraints: constraints.get(oid) ?? [],
  });
  const items = tables.flatMap((table) => {
    const parts = partsOf(table);
    return [
      tableItem(table, parts),
      ...defaultItems(table, parts.columns),
      ...constraintItems(table, parts.constraints),
    ];
  });
  return { items, aliases: tables.flatMap((table) => aliasesOf(table, partsOf(table))) };
};
