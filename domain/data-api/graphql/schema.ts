import {
  GraphQLBoolean,
  GraphQLEnumType,
  GraphQLList,
  GraphQLObjectType,
  GraphQLSchema,
  type GraphQLFieldConfig,
  type GraphQLFieldConfigArgumentMap,
  SchemaMetaFieldDef,
  TypeMetaFieldDef,
  getNamedType,
  getNullableType,
  isListType,
  type GraphQLField,
} from 'graphql';
import type { Column, DataSchema } from '../schema/schema.ts';
import {
  comparisonTypes,
  aggregateObject,
  listArgs,
  responseObject,
  rowObject,
  tableInputs,
  type ObjectFields,
  type Types,
  listOf,
  memoized,
  required,
} from './types.ts';
import { type GraphModel, type GraphTable, type RootField, failure, graphModel, reducedModel } from './model.ts';
import { elementType, isArray, scalarTypes, type Inputs, inputsOf, type Fields } from './inputs.ts';
import { createBudget, type Reading, readDocument, type DocumentCache, createDocumentCache } from './document.ts';
import { type SelectedField, argument, collect } from './collect.ts';
import { type Operation, type CompiledQuery, compileQuery } from './operation.ts';
import { LRUCache } from 'lru-cache';

const orderBy = (): GraphQLEnumType => {
  const ways = ['asc', 'asc_nulls_first', 'asc_nulls_last', 'desc', 'desc_nulls_first', 'desc_nulls_last'];
  return new GraphQLEnumType({ name: 'order_by', values: Object.fromEntries(ways.map((way) => [way, {}])) });
};

const makeTypes = (model: GraphModel): Types => {
  const scalar = scalarTypes((name) => model.tables.has(name));
  const column = memoized((of: Column) => {
    const element = scalar(elementType(of));
    return isArray(of.baseType) ? new GraphQLList(element) : element;
  });
  const types: Types = {
    orderBy: orderBy(),
    scalar,
    column,
    comparison: comparisonTypes(column, scalar),
    object: memoized((table: GraphTable) => rowObject(table, types)),
    aggregate: memoized((table: GraphTable) => aggregateObject(table, types)),
    response: memoized((table: GraphTable) => responseObject(table, types)),
    inputs: memoized((table: GraphTable) => tableInputs(table, types)),
  };
  return types;
};

const keyArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap =>
  Object.fromEntries(table.key.map((column) => [column.name, { type: required(types.column(column)) }]));

const insertArgs = (table: GraphTable, types: Types, one: boolean): GraphQLFieldConfigArgumentMap => {
  const { insert, onConflict } = types.inputs(table);
  return {
    ...(one ? { object: { type: required(insert) } } : { objects: { type: required(listOf(insert)) } }),
    ...(onConflict && { on_conflict: { type: onConflict } }),
  };
};

const changeArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap => {
  const { set, inc } = types.inputs(table);
  return { ...(set && { _set: { type: set } }), ...(inc && { _inc: { type: inc } }) };
};

const pkArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap => {
  const { key } = types.inputs(table);
  return key === null ? {} : { pk_columns: { type: required(key) } };
};

const whereArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap => ({
  where: { type: required(types.inputs(table).boolExp) },
});

type Field = GraphQLFieldConfig<unknown, unknown>;

const fieldOf = ({ kind, table }: RootField, types: Types): Field => {
  const row = (args: GraphQLFieldConfigArgumentMap): Field => ({ type: types.object(table), args });
  const response = (args: GraphQLFieldConfigArgumentMap): Field => ({ type: types.response(table), args });
  switch (kind) {
    case 'list':
      return { type: required(listOf(types.object(table))), args: listArgs(table, types) };
    case 'aggregate':
      return { type: required(types.aggregate(table)), args: listArgs(table, types) };
    case 'by_pk':
    case 'delete_by_pk':
      return row(keyArgs(table, types));
    case 'insert':
      return response(insertArgs(table, types, false));
    case 'insert_one':
      return row(insertArgs(table, types, true));
    case 'update':
      return response({ ...whereArgs(table, types), ...changeArgs(table, types) });
    case 'update_by_pk':
      return row({ ...pkArgs(table, types), ...changeArgs(table, types) });
    case 'delete':
      return response(whereArgs(table, types));
    default:
      return kind satisfies never;
  }
};

const fieldsOf = (fields: ReadonlyMap<string, RootField>, types: Types): ObjectFields =>
  Object.fromEntries([...fields].map(([name, field]) => [name, fieldOf(field, types)]));

// GraphQL has no type without fields, and a project may have no table.
const empty: ObjectFields = { no_tables: { type: GraphQLBoolean, description: 'Always null: there is no table yet.' } };

/**
 * The GraphQL schema of a project's tables, for validation and introspection: nothing in it can be executed.
 * It is known to be valid, and so not checked again; that would take longer than making it.
 */
export const graphqlSchema = (model: GraphModel): GraphQLSchema => {
  const types = makeTypes(model);
  const mutations = model.mutations.size > 0;
  return new GraphQLSchema({
    assumeValid: true,
    query: new GraphQLObjectType({
      name: 'query_root',
      fields: () => (model.queries.size > 0 ? fieldsOf(model.queries, types) : empty),
    }),
    mutation: mutations
      ? new GraphQLObjectType({ name: 'mutation_root', fields: () => fieldsOf(model.mutations, types) })
      : null,
  });
};

// All of 100 tables of 15 columns, in the words of the usual tools, is some 350,000 keys and values, 4 MB and 50 ms of
// the process, which does nothing else meanwhile.
const maxParts = 800_000;
const maxLetters = 8 * 1024 * 1024;

/** Keeps count of what is written, and throws as soon as it is too much. */
const createMeter = (): ((text: string) => string) => {
  let parts = 0;
  let letters = 0;
  return (text) => {
    parts += 1;
    letters += text.length;
    if (parts > maxParts || letters > maxLetters)
      throw failure(
        'query_too_costly',
        `The introspection query selects more than ${maxParts} keys and values, or ${maxLetters / 1024 / 1024} MB: ask for less at a time.`,
      );
    return text;
  };
};

type Resolve = (source: unknown) => unknown;
type Write = (value: unknown) => string;

/** One key of the objects that a selection makes. */
interface Entry {
  /** `"key":` */
  readonly head: string;
  readonly resolve: Resolve;
  readonly write: Write;
}

interface Work {
  readonly schema: GraphQLSchema;
  readonly inputs: Inputs;
  readonly collected: (selected: SelectedField) => readonly SelectedField[];
  readonly meter: (text: string) => string;
}

// The arguments that graphql-js gives its resolvers besides: those of introspection read the schema and nothing else.
type Info = Parameters<NonNullable<GraphQLField<unknown, unknown>['resolve']>>[3];

const resolverOf = (
  { resolve }: GraphQLField<unknown, unknown>,
  selected: SelectedField,
  { schema, inputs }: Work,
): Resolve => {
  const args = {
    name: inputs.resolveVariables(argument(selected, 'name')),
    includeDeprecated: inputs.resolveVariables(argument(selected, 'includeDeprecated')) === true,
  };
  return (source) => resolve?.(source, args, undefined, { schema } as Info);
};

const leafWriter =
  ({ meter }: Work): Write =>
  (value) =>
    meter(JSON.stringify(value ?? null));

const objectWriter = (type: GraphQLObjectType, selected: SelectedField, work: Work): Write => {
  // Made with the first object: a selection that no object is there for costs nothing.
  let entries: readonly Entry[] | undefined;
  const { meter } = work;
  return (source) => {
    if (source === null || source === undefined) return meter('null');
    entries ??= work.collected(selected).map((one) => entryOf(type, one, work));
    let text = '';
    for (const { head, resolve, write } of entries)
      text += `${text === '' ? '{' : ','}${meter(head)}${write(resolve(source))}`;
    return `${text}}`;
  };
};

const listWriter =
  (write: Write, { meter }: Work): Write =>
  (values) =>
    Array.isArray(values) ? `[${values.map((value) => write(value)).join(',')}]` : meter('null');

const fieldEntry = (field: GraphQLField<unknown, unknown>, selected: SelectedField, work: Work): Entry => {
  const type = getNamedType(field.type);
  const one = type instanceof GraphQLObjectType ? objectWriter(type, selected, work) : leafWriter(work);
  const write = isListType(getNullableType(field.type)) ? listWriter(one, work) : one;
  return { head: `${JSON.stringify(selected.key)}:`, resolve: resolverOf(field, selected, work), write };
};

const entryOf = (type: GraphQLObjectType, selected: SelectedField, work: Work): Entry => {
  const field = type.getFields()[selected.name];
  if (field) return fieldEntry(field, selected, work);
  return { head: `${JSON.stringify(selected.key)}:`, resolve: () => type.name, write: leafWriter(work) };
};

/**
 * Writes the GraphQL schema's description of itself, as JSON text by the selected keys: field by field, and stopped
 * once it is too long. graphql-js itself would first hold all of it, however much fragments and aliases multiply.
 * @param variables as the operation's definitions read them
 * @throws {GraphQLError}
 */
export const introspect = (
  schema: GraphQLSchema,
  { fragments }: Operation,
  selected: readonly SelectedField[],
  variables: Fields,
): ReadonlyMap<string, string> => {
  const inputs = inputsOf(variables, 'now');
  const budget = createBudget();
  const collected = ({ sets }: SelectedField): readonly SelectedField[] => collect(sets, { inputs, fragments, budget });
  const work: Work = { schema, inputs, collected, meter: createMeter() };
  return new Map(
    selected.map((one) => {
      const { resolve, write } = fieldEntry(one.name === '__schema' ? SchemaMetaFieldDef : TypeMetaFieldDef, one, work);
      return [one.key, write(resolve(null))];
    }),
  );
};

/** A project's GraphQL: made of one version of its schema. */
export interface Graph {
  readonly data: DataSchema;
  readonly model: GraphModel;
  readonly schema: GraphQLSchema;
  readonly read: (text: string) => Reading;
  /** @throws {GraphQLError} */
  readonly compile: (operation: Operation, variables: Fields) => CompiledQuery;
  /**
   * `__schema` and `__type`, as JSON text by key.
   * @param visible names of tables, of which alone it tells; null: of all
   * @throws {GraphQLError}
   */
  readonly introspect: (
    operation: Operation,
    selected: Introspected,
    visible: ReadonlySet<string> | null,
  ) => ReadonlyMap<string, string>;
}

interface Introspected {
  readonly selected: readonly SelectedField[];
  readonly variables: Fields;
}

/** The schema for those who may see a part of it; the last one is kept: end users of all kinds see the same, mostly. */
const reducing = (model: GraphModel, whole: GraphQLSchema): ((about: string) => GraphQLSchema) => {
  let last: { readonly about: string; readonly schema: GraphQLSchema } | undefined;
  return (about) => {
    if (about === everything) return whole;
    if (last?.about !== about)
      last = { about, schema: graphqlSchema(reducedModel(model, new Set(about.split(separator)))) };
    return last.schema;
  };
};

const everything = '*';
// Names of GraphQL have none.
const separator = ' ';

const aboutOf = (model: GraphModel, visible: ReadonlySet<string> | null): string => {
  const names = [...model.tables.keys()];
  const shown = visible === null ? names : names.filter((name) => visible.has(name));
  return shown.length === names.length ? everything : shown.join(separator);
};

const graphOf = (id: number, data: DataSchema, documents: DocumentCache): Graph => {
  const model = graphModel(data);
  const schema = graphqlSchema(model);
  const schemaAbout = reducing(model, schema);
  return {
    data,
    model,
    schema,
    introspect: (operation, { selected, variables }, visible) => {
      const about = aboutOf(model, visible);
      return documents.answer(operation, about, () => introspect(schemaAbout(about), operation, selected, variables));
    },
    read: (text) => {
      const key = `${id} ${text}`;
      const known = documents.document(key);
      if (known) return { document: known };
      const reading = readDocument(schema, text);
      if (reading.document) documents.keep(key, reading.document);
      return reading;
    },
    compile: (operation, variables) =>
      documents.statement(operation, variables, () => compileQuery(model, operation, variables)),
  };
};

const maxGraphs = 50;
/** One is some 7 kB of a graph. */
const maxColumns = 50_000;

// One that is larger than all may be is kept nevertheless, alone: making it takes as long as it is large.
const sizeOf = ({ data }: Graph): number =>
  Math.min(
    [...data.tables.values()].reduce((sum, { columns }) => sum + columns.size + 1, 1),
    maxColumns,
  );

/** GraphQL of the projects that asked lately. */
export const createGraphs = (): ((projectId: string, data: DataSchema) => Graph) => {
  const graphs = new LRUCache<string, Graph>({ max: maxGraphs, maxSize: maxColumns, sizeCalculation: sizeOf });
  const documents = createDocumentCache();
  let made = 0;
  return (projectId, data) => {
    const known = graphs.get(projectId);
    if (known?.data === data) return known;
    const graph = graphOf((made += 1), data, documents);
    graphs.set(projectId, graph);
    return graph;
  };
};
