import { DataError } from '../errors.ts';
import type { Value, Condition, Field, OrderTerm, ReadPlan, RelationField } from '../data-api.ts';
import type { Column, Table, DataSchema, Junction, Relationship } from '../schema/schema.ts';
import type {
  FieldAst,
  ConditionAst,
  TestAst,
  RelationAst,
  At,
  OrderAst,
  ParsedQuery,
  SelectItem,
} from './grammar/grammar.ts';
import { nearest } from '#lib/nearest.ts';
import { wholeCondition } from '../sql/conditions.ts';
import { isToOne } from '../sql/select.ts';

/**
 * A column by its name.
 * @throws {DataError} 42703 (400), in the server's own words, with the nearest name for a hint
 */
const findColumn = (table: Table, name: string): Column => {
  const column = table.columns.get(name);
  if (column !== undefined) return column;
  const near = nearest(name, table.columns.keys());
  throw new DataError(400, '42703', `column ${table.name}.${name} does not exist`, {
    hint: near === null ? null : `Perhaps you meant to reference the column "${table.name}.${near}".`,
  });
};

/** @throws {DataError} 42703 (400) */
export const valueOf = (table: Table, { name, path }: FieldAst): Value => ({ column: findColumn(table, name), path });

type FilterAst = Extract<ConditionAst, { kind: 'filter' }>;

/** In a URL `%` has to be encoded, so that `*` is a wildcard, too. */
const patternOf = (operand: string): string => operand.replaceAll('*', '%');

const testedBy = (test: TestAst, value: Value): Condition => {
  if (test.kind !== 'compare') return { ...test, value };
  const { operator, quantifier, operand } = test;
  const isPattern = operator === 'like' || operator === 'ilike';
  return {
    kind: 'compare',
    value,
    operator,
    operand: isPattern ? patternOf(operand) : operand,
    ...(quantifier !== null && { quantifier }),
  };
};

const negatedIf = (negated: boolean, part: Condition): Condition => (negated ? { kind: 'not', part } : part);

/** `author=is.null` asks for a related row by its name in `select`; null where the field is no such name. */
type RequestRelated = (name: string) => Condition | null;

const relatedTest = ({ field, test }: FilterAst, table: Table, requestRelated: RequestRelated): Condition | null => {
  if (test.kind !== 'is' || field.path.length > 0 || table.columns.has(field.name)) return null;
  if (test.what !== 'null' && test.what !== 'not_null') return null;
  const related = requestRelated(field.name);
  if (related === null) return null;
  return negatedIf(test.what === 'null', related);
};

/** @throws {DataError} 42703 (400) for a column that the table does not have */
const resolveCondition = (ast: ConditionAst, table: Table, requestRelated: RequestRelated): Condition => {
  if (ast.kind === 'filter') {
    const part = relatedTest(ast, table, requestRelated) ?? testedBy(ast.test, valueOf(table, ast.field));
    return negatedIf(ast.negated, part);
  }
  const parts = ast.parts.map((part) => resolveCondition(part, table, requestRelated));
  return negatedIf(ast.negated, { kind: ast.operator, parts });
};

/** All of them; null when there are none. */
const allOf = (parts: readonly Condition[]): Condition | null => {
  const [first] = parts;
  if (first === undefined) return null;
  return parts.length === 1 ? first : { kind: 'and', parts };
};

type Wanted = Pick<RelationAst, 'name' | 'hint'>;

const isKeyColumn = ({ kind, columns }: Relationship, name: string): boolean =>
  kind !== 'many-to-many' && columns.length === 1 && columns[0] === name;

const isTargetKeyColumn = ({ holdsKey, kind, targetColumns }: Relationship, name: string): boolean =>
  !holdsKey && kind !== 'many-to-many' && targetColumns.length === 1 && targetColumns[0] === name;

/** The other table, the constraint or the column of the foreign key can be asked for by name. */
const isNamed = (relationship: Relationship, name: string): boolean =>
  relationship.target === name ||
  (relationship.junction === null && relationship.constraint === name) ||
  (relationship.holdsKey && isKeyColumn(relationship, name));

/** The table between, or the key in it that leads to the target: both ways of a table to itself have the same table. */
const isHintedThrough = ({ table, constraints: [, far], farColumns }: Junction, hint: string): boolean =>
  table === hint || far === hint || (farColumns.length === 1 && farColumns[0] === hint);

/** The constraint, the key's column on either side, or the table between. */
const isHinted = (relationship: Relationship, hint: string): boolean => {
  const { junction, constraint, holdsKey } = relationship;
  if (junction !== null) return isHintedThrough(junction, hint);
  if (constraint === hint) return true;
  return holdsKey ? isKeyColumn(relationship, hint) : isTargetKeyColumn(relationship, hint);
};

/**
 * A foreign key to the own table is a relationship twice. With its column for a hint it is the row that the column
 * refers to, otherwise the rows that refer to this one, as in PostgREST.
 */
const oneOfSelf = (found: readonly Relationship[], { hint }: Wanted): Relationship | null => {
  const [first, second] = found;
  if (found.length !== 2 || first === undefined || second === undefined) return null;
  const isSame = first.constraint === second.constraint && first.target === second.target;
  if (!isSame || first.junction !== null) return null;
  const holder = first.holdsKey ? first : second;
  const other = first.holdsKey ? second : first;
  return hint !== null && isKeyColumn(holder, hint) ? holder : other;
};

const columnList = (table: string, columns: readonly string[]): string => `${table}(${columns.join(', ')})`;

const describe = (table: Table, relationship: Relationship): Readonly<Record<string, string>> => {
  const { kind, constraint, columns, target, targetColumns, junction } = relationship;
  const used =
    junction === null
      ? `${constraint} using ${columnList(table.name, columns)} and ${columnList(target, targetColumns)}`
      : `${junction.table} using ${columnList(junction.constraints[0], junction.nearColumns)} and ` +
        columnList(junction.constraints[1], junction.farColumns);
  return { cardinality: kind, embedding: `${table.name} with ${target}`, relationship: used };
};

/** A hint that no other of the relationships fits. */
const hintOf = ({ constraint, junction }: Relationship, others: readonly Relationship[]): string => {
  if (junction === null) return constraint;
  const isShared = others.filter((other) => other.junction?.table === junction.table).length > 1;
  return isShared ? junction.constraints[1] : junction.table;
};

/** So many choices are told: a table may have thousands. */
const maxChoices = 50;

const refuseAmbiguous = (table: Table, { name }: Wanted, all: readonly Relationship[]): never => {
  const found = all.slice(0, maxChoices);
  const choices = found.map((relationship) => `'${name}!${hintOf(relationship, found)}'`).join(', ');
  throw new DataError(
    300,
    'PGRST201',
    `Could not embed because more than one relationship was found for '${table.name}' and '${name}'`,
    {
      details: found.map((relationship) => describe(table, relationship)),
      hint: `Try changing '${name}' to one of the following: ${choices}. Find the desired relationship in the 'details' key.`,
    },
  );
};

const refuseUnknown = (schema: DataSchema, table: Table, { name, hint }: Wanted): never => {
  const near =
    nearest(name, new Set(table.relationships.map(({ target }) => target))) ??
    (schema.tables.has(name) ? null : nearest(name, schema.tables.keys()));
  const using = hint === null ? '' : ` using the hint '${hint}'`;
  throw new DataError(
    400,
    'PGRST200',
    `Could not find a relationship between '${table.name}' and '${name}' in the schema cache`,
    {
      details:
        `Searched for a foreign key relationship between '${table.name}' and '${name}'${using} in the schema '${schema.name}', ` +
        'but no matches were found.',
      hint: near === null || near === name ? null : `Perhaps you meant '${near}' instead of '${name}'.`,
    },
  );
};

/**
 * The relationship that an embedding asks for.
 * @throws {DataError} PGRST200 (400) when there is none, PGRST201 (300) when there are several
 */
export const findRelationship = (schema: DataSchema, table: Table, wanted: Wanted): Relationship => {
  const { name, hint } = wanted;
  const found = table.relationships
    .filter((relationship) => isNamed(relationship, name) && schema.tables.has(relationship.target))
    .filter((relationship) => hint === null || isHinted(relationship, hint));
  const [only] = found;
  if (only === undefined) return refuseUnknown(schema, table, wanted);
  if (found.length === 1) return only;
  return oneOfSelf(found, wanted) ?? refuseAmbiguous(table, wanted, found);
};

/** The table at the other end. */
const targetOf = (schema: DataSchema, relationship: Relationship): Table => {
  const target = schema.tables.get(relationship.target);
  if (target === undefined)
    throw new Error(`the schema has a relationship to ${relationship.target} and no such table`);
  return target;
};

/** A window of rows; `limit` null: as many as there may be. */
export interface Window {
  readonly offset: number;
  readonly limit: number | null;
}

/** @param total rows that there are, where they were counted */
const notSatisfiable = (details: string, total: number | null): DataError =>
  new DataError(416, 'PGRST103', 'Requested range not satisfiable', {
    details,
    headers: { 'Content-Range': `*/${total ?? '*'}` },
  });

/**
 * `Range: 0-24` (with `Range-Unit: items`, or without). What is not of this form is ignored, as PostgREST does, a range
 * of bytes for one.
 * @throws {DataError} PGRST103 when it ends before it begins
 */
export const parseRange = (header: string): Window | null => {
  const [, first, last] = /^(?:items=)?(\d{1,15})-(\d{0,15})$/.exec(header.trim()) ?? [];
  if (first === undefined) return null;
  const offset = Number(first);
  if (last === undefined || last === '') return { offset, limit: null };
  if (Number(last) < offset) {
    const details = 'The lower boundary must be lower than or equal to the upper boundary in the Range header.';
    throw notSatisfiable(details, null);
  }
  return { offset, limit: Number(last) - offset + 1 };
};

/** Returns the intersection of both: the part of the second range that lies within the first. */
export const within = (outer: Window, inner: Window): Window => {
  const offset = Math.max(outer.offset, inner.offset);
  const ends = [outer, inner].flatMap(({ offset, limit }) => (limit === null ? [] : [offset + limit]));
  return { offset, limit: ends.length === 0 ? null : Math.max(0, Math.min(...ends) - offset) };
};

/** `0-24/100`; an asterisk where nothing is, and where nothing was counted. */
export const contentRange = (offset: number, rows: number, total: number | null): string =>
  `${rows > 0 ? `${offset}-${offset + rows - 1}` : '*'}/${total ?? '*'}`;

/**
 * 200 for all there is (or when nothing was counted), 206 for a part.
 * @throws {DataError} PGRST103 when the page begins after the last row
 */
export const pageStatus = (offset: number, rows: number, total: number | null): 200 | 206 => {
  if (total === null) return 200;
  if (offset > total) {
    throw notSatisfiable(`An offset of ${offset} was requested, but there are only ${total} rows.`, total);
  }
  return rows < total ? 206 : 200;
};

export interface ReadDefaults {
  /** The largest page, and the page of who names none; of related rows, too. */
  readonly maxLimit: number;
}

/** The parts of a query about one level: the requested rows, or those of one relation in `select`. */
interface Level {
  readonly table: Table;
  readonly items: readonly SelectItem[];
  readonly query: Located;
}

type Located = Pick<ParsedQuery, 'where' | 'order' | 'limit' | 'offset'>;

interface Resolver {
  readonly schema: DataSchema;
  readonly defaults: ReadDefaults;
  /** How many relations the query has named so far. */
  embedded: number;
}

// The server's own limit of what one SELECT may list, ORDER BY included.
const maxColumns = 1664;
// Each is a subquery that the server has to plan.
const maxEmbedded = 100;

const refuseTooMany = (what: string, max: number): never => {
  throw new DataError(400, '54011', `a request can have at most ${max} ${what}`);
};

const checkSize = ({ table, items, query }: Level): void => {
  const listed = items.reduce((sum, { kind }) => sum + (kind === 'all' ? table.columns.size : 1), 0);
  const ordered = here(query.order)[0]?.length ?? 0;
  if (listed + ordered > maxColumns) refuseTooMany('columns and orders', maxColumns);
};

/** The columns that a level lists, those that are spread from related rows included. */
const widthOf = (table: Table, fields: readonly Field[]): number =>
  fields.reduce((sum, field) => {
    if (field.kind === 'all') return sum + table.columns.size;
    const isSpread = field.kind === 'relation' && field.spread;
    return sum + (isSpread ? widthOf(field.plan.table, field.plan.fields) : 1);
  }, 0);

/** Each level is checked before the one around it: what is counted here is small. */
const checkWidth = (table: Table, fields: readonly Field[]): void => {
  if (widthOf(table, fields) > maxColumns) refuseTooMany('columns and orders', maxColumns);
};

const isRelation = (item: SelectItem): item is RelationAst => item.kind === 'relation';

type RelationsByName = ReadonlyMap<string, RelationAst>;

/** The relations that paths mean by their first names: an alias goes before a name, and the first of several. */
const relationsByName = (items: readonly SelectItem[]): RelationsByName => {
  const relations = items.filter(isRelation);
  if (relations.length > maxEmbedded) refuseTooMany('embedded resources', maxEmbedded);
  const found = new Map<string, RelationAst>();
  const add = (name: string | null, relation: RelationAst): void => {
    if (name !== null && !found.has(name)) found.set(name, relation);
  };
  for (const relation of relations) add(relation.alias, relation);
  for (const relation of relations) add(relation.name, relation);
  return found;
};

const refuseNotEmbedded = (name: string): never => {
  throw new DataError(400, 'PGRST108', `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });
};

const here = <T>(list: readonly At<T>[]): T[] => list.filter(({ path }) => path.length === 0).map(({ what }) => what);

/** Groups them by the relations of a level, with the relation's name taken off the path. */
const divide = <T>(list: readonly At<T>[], relations: RelationsByName): Map<RelationAst, At<T>[]> => {
  const byRelation = new Map<RelationAst, At<T>[]>();
  for (const { path, what } of list) {
    const [name, ...rest] = path;
    if (name === undefined) continue;
    const relation = relations.get(name) ?? refuseNotEmbedded(name);
    const known = byRelation.get(relation) ?? [];
    known.push({ path: rest, what });
    byRelation.set(relation, known);
  }
  return byRelation;
};

/** The same for all that can be said. */
const queriesOf = ({ query }: Level, relations: RelationsByName): ((relation: RelationAst) => Located) => {
  const [where, order] = [divide(query.where, relations), divide(query.order, relations)];
  const [limit, offset] = [divide(query.limit, relations), divide(query.offset, relations)];
  return (relation) => ({
    where: where.get(relation) ?? [],
    order: order.get(relation) ?? [],
    limit: limit.get(relation) ?? [],
    offset: offset.get(relation) ?? [],
  });
};

/** `data->a->0` is called `a`: by the last step that has a name. */
const keyOf = ({ name, path }: FieldAst): string =>
  path.findLast(({ key }) => typeof key === 'string')?.key.toString() ?? name;

type FieldItem = Extract<SelectItem, { kind: 'field' }>;

/** `films(count)`: PostgREST's clients write the number of rows so, where no column has that name. */
const isBareCount = ({ field, aggregate }: FieldItem, { columns }: Table): boolean =>
  field?.name === 'count' && field.path.length === 0 && aggregate === null && !columns.has('count');

const countOf = ({ alias, cast }: FieldItem): Field => ({
  kind: 'value',
  as: alias ?? 'count',
  value: { column: null, path: [], aggregate: 'count', ...(cast !== null && { aggregateCast: cast }) },
});

const valueField = ({ alias, field, cast, aggregate, aggregateCast }: FieldItem, table: Table): Field => {
  const value = field === null ? { column: null, path: [] } : valueOf(table, field);
  const ownKey = field === null ? 'count' : keyOf(field);
  return {
    kind: 'value',
    as: alias ?? aggregate ?? ownKey,
    value: {
      ...value,
      ...(cast !== null && { cast }),
      ...(aggregate !== null && { aggregate }),
      ...(aggregateCast !== null && { aggregateCast }),
    },
  };
};

const fieldOf = (item: FieldItem, table: Table): Field =>
  isBareCount(item, table) ? countOf(item) : valueField(item, table);

const relationOf = (item: RelationAst, level: Level, query: Located, resolver: Resolver): RelationField => {
  resolver.embedded += 1;
  if (resolver.embedded > maxEmbedded) refuseTooMany('embedded resources', maxEmbedded);
  const relationship = findRelationship(resolver.schema, level.table, item);
  const table = targetOf(resolver.schema, relationship);
  const plan = levelPlan({ table, items: item.items, query }, resolver, isToOne(relationship));
  return { kind: 'relation', as: item.alias ?? item.name, relationship, plan, inner: item.inner, spread: item.spread };
};

const refuseRelatedOrder = (table: Table, name: string): never => {
  throw new DataError(400, 'PGRST118', `A related order on '${name}' is not possible`, {
    details: `'${table.name}' and '${name}' do not form a many-to-one or one-to-one relationship`,
  });
};

/** The relation of a level by its name in `select`. */
type FindRelation = (name: string) => RelationField | null;

const orderTerm = (
  { relation, field, direction, nulls }: OrderAst,
  table: Table,
  findRelation: FindRelation,
): OrderTerm => {
  if (relation === null) return { value: valueOf(table, field), direction, nulls };
  const related = findRelation(relation) ?? refuseNotEmbedded(relation);
  if (!isToOne(related.relationship)) return refuseRelatedOrder(table, relation);
  const throughTable = related.plan.table;
  return { value: valueOf(throughTable, field), through: related.relationship, throughTable, direction, nulls };
};

/** A related row that fits what is asked of it. */
const relatedCondition = ({ relationship, plan }: RelationField): Condition => ({
  kind: 'related',
  relationship,
  table: plan.table,
  where: wholeCondition(plan),
});

const levelPlan = (level: Level, resolver: Resolver, toOne: boolean): ReadPlan => {
  const { table, items, query } = level;
  checkSize(level);
  const named = relationsByName(items);
  const queryOf = queriesOf(level, named);
  const relations = new Map<RelationAst, RelationField>();
  const fields = items.map((item): Field => {
    if (item.kind === 'all') return item;
    if (item.kind === 'field') return fieldOf(item, table);
    const field = relationOf(item, level, queryOf(item), resolver);
    relations.set(item, field);
    return field;
  });
  const findRelation: FindRelation = (name) => {
    const relation = named.get(name);
    return (relation && relations.get(relation)) ?? null;
  };
  checkWidth(table, fields);
  const requestRelated = (name: string): Condition | null => {
    const related = findRelation(name);
    return related === null ? null : relatedCondition(related);
  };
  return {
    table,
    fields,
    where: allOf(here(query.where).map((ast) => resolveCondition(ast, table, requestRelated))),
    order: (here(query.order)[0] ?? []).map((term) => orderTerm(term, table, findRelation)),
    ...levelPage(query, resolver, toOne),
  };
};

const levelPage = (query: Located, { defaults }: Resolver, toOne: boolean): Pick<ReadPlan, 'limit' | 'offset'> => {
  const limit = here(query.limit).at(-1);
  const offset = here(query.offset).at(-1) ?? 0;
  if (toOne && limit === undefined) return { limit: null, offset };
  return { limit: Math.min(limit ?? defaults.maxLimit, defaults.maxLimit), offset };
};

/**
 * Resolves a query to a plan in the schema's terms.
 * @throws {DataError} 400 for an unknown column (42703) or relation (PGRST200, PGRST108), 300 for one that could be
 * several
 */
export const readPlan = (schema: DataSchema, table: Table, parsed: ParsedQuery, defaults: ReadDefaults): ReadPlan =>
  levelPlan({ table, items: parsed.select, query: parsed }, { schema, defaults, embedded: 0 }, false);

/**
 * Resolves the answer of a write: `select` and the conditions on related rows. The rows are those that were written:
 * the query's own filters, limit and offset have chosen them already. To be written with `from`.
 * @throws {DataError} as {@link readPlan}
 */
export const returningPlan = (
  schema: DataSchema,
  table: Table,
  parsed: ParsedQuery,
  defaults: ReadDefaults,
): ReadPlan => {
  const where = parsed.where.filter(({ path }) => path.length > 0);
  return { ...readPlan(schema, table, { ...parsed, where }, defaults), limit: null, offset: 0 };
};
