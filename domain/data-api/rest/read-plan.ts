import { DataError } from '#domain/data-api/errors.ts';
import type { Condition, Field, OrderTerm, ReadPlan, RelationField } from '#domain/data-api/plan.ts';
import type { DataSchema, Table } from '#domain/data-api/schema/types.ts';
import { wholeCondition } from '#domain/data-api/sql/conditions.ts';
import { isToOne } from '#domain/data-api/sql/select.ts';
import { valueOf } from './columns.ts';
import { allOf, resolveCondition } from './filters.ts';
import type { At, FieldAst, OrderAst, ParsedQuery, RelationAst, SelectItem } from './grammar/ast.ts';
import { findRelationship, targetOf } from './relations.ts';

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

const namesOf = ({ alias, name }: RelationAst): readonly string[] => (alias === null ? [name] : [alias, name]);

const isRelation = (item: SelectItem): item is RelationAst => item.kind === 'relation';

/** The relation that a path's first name means: an alias goes before a name. */
const relationNamed = (items: readonly SelectItem[], name: string): RelationAst | undefined => {
  const relations = items.filter(isRelation);
  return relations.find(({ alias }) => alias === name) ?? relations.find((item) => namesOf(item).includes(name));
};

const refuseNotEmbedded = (name: string): never => {
  throw new DataError(400, 'PGRST108', `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });
};

const here = <T>(list: readonly At<T>[]): T[] => list.filter(({ path }) => path.length === 0).map(({ what }) => what);

/** Groups them by the relations of a level, with the relation's name taken off the path. */
const divide = <T>(list: readonly At<T>[], items: readonly SelectItem[]): Map<RelationAst, At<T>[]> => {
  const byRelation = new Map<RelationAst, At<T>[]>();
  for (const { path, what } of list) {
    const [name, ...rest] = path;
    if (name === undefined) continue;
    const relation = relationNamed(items, name) ?? refuseNotEmbedded(name);
    const known = byRelation.get(relation) ?? [];
    known.push({ path: rest, what });
    byRelation.set(relation, known);
  }
  return byRelation;
};

/** The same for all that can be said. */
const queriesOf = ({ items, query }: Level): ((relation: RelationAst) => Located) => {
  const [where, order] = [divide(query.where, items), divide(query.order, items)];
  const [limit, offset] = [divide(query.limit, items), divide(query.offset, items)];
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
  const plan = planOf({ table, items: item.items, query }, resolver, isToOne(relationship));
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

const planOf = (level: Level, resolver: Resolver, toOne: boolean): ReadPlan => {
  const { table, items, query } = level;
  checkSize(level);
  const queryOf = queriesOf(level);
  const relations = new Map<RelationAst, RelationField>();
  const fields = items.map((item): Field => {
    if (item.kind === 'all') return item;
    if (item.kind === 'field') return fieldOf(item, table);
    const field = relationOf(item, level, queryOf(item), resolver);
    relations.set(item, field);
    return field;
  });
  const findRelation: FindRelation = (name) => {
    const relation = relationNamed(items, name);
    return (relation && relations.get(relation)) ?? null;
  };
  const requestRelated = (name: string): Condition | null => {
    const related = findRelation(name);
    return related === null ? null : relatedCondition(related);
  };
  return {
    table,
    fields,
    where: allOf(here(query.where).map((ast) => resolveCondition(ast, table, requestRelated))),
    order: (here(query.order)[0] ?? []).map((term) => orderTerm(term, table, findRelation)),
    ...pageOf(query, resolver, toOne),
  };
};

const pageOf = (query: Located, { defaults }: Resolver, toOne: boolean): Pick<ReadPlan, 'limit' | 'offset'> => {
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
  planOf({ table, items: parsed.select, query: parsed }, { schema, defaults, embedded: 0 }, false);

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
