import {
  GraphQLBoolean,
  GraphQLEnumType,
  GraphQLList,
  GraphQLObjectType,
  GraphQLSchema,
  type GraphQLFieldConfig,
  type GraphQLFieldConfigArgumentMap,
  type DocumentNode,
  type GraphQLNamedType,
} from 'graphql';
import type { DataSchema, Table } from '../schema/schema.ts';
import {
  comparisonTypes,
  aggregateObject,
  listArgs,
  responseObject,
  rowObject,
  tableInputs,
  type ObjectFields,
  type Typed,
  type Types,
  listOf,
  memoized,
  required,
} from './types.ts';
import {
  type GraphModel,
  type GraphTable,
  type RootField,
  type WholeModel,
  failure,
  graphModel,
  isEmpty,
  isName,
  wholeModel,
} from './model.ts';
import { elementType, isArray, scalarTypes, type Fields } from './inputs.ts';
import {
  type Document,
  type DocumentCache,
  type Reading,
  createDocumentCache,
  namesIn,
  readDocument,
} from './document.ts';
import { tableOfType, typeNamed } from './type-names.ts';
import type { SelectedField } from './collect.ts';
import { introspect } from './introspection.ts';
import { type Operation, type CompiledQuery, compileQuery } from './operation.ts';
import { LRUCache } from 'lru-cache';

const orderBy = (): GraphQLEnumType => {
  const ways = ['asc', 'asc_nulls_first', 'asc_nulls_last', 'desc', 'desc_nulls_first', 'desc_nulls_last'];
  return new GraphQLEnumType({ name: 'order_by', values: Object.fromEntries(ways.map((way) => [way, {}])) });
};

/** Called for each type of a table, with the number of columns that it is made of. */
type OnMade = (columns: number) => void;

const makeTypes = (isTable: (name: string) => boolean, onMade: OnMade): Types => {
  const scalar = scalarTypes(isTable);
  const column = memoized((of: Typed) => {
    const element = scalar(elementType(of));
    return isArray(of.baseType) ? new GraphQLList(element) : element;
  });
  const ofTable = <V>(make: (table: GraphTable, types: Types) => V): ((table: GraphTable) => V) =>
    memoized((table: GraphTable) => {
      onMade(table.columns.size + 1);
      return make(table, types);
    });
  const types: Types = {
    orderBy: orderBy(),
    scalar,
    column,
    comparison: comparisonTypes(column, scalar),
    object: ofTable(rowObject),
    aggregate: ofTable(aggregateObject),
    response: ofTable(responseObject),
    inputs: ofTable(tableInputs),
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

type Roots = Iterable<readonly [name: string, field: RootField]>;

const fieldsOf = (fields: Roots, types: Types): ObjectFields =>
  Object.fromEntries([...fields].map(([name, field]) => [name, fieldOf(field, types)]));

// GraphQL has no type without fields, and a project may have no table.
const empty: ObjectFields = { no_tables: { type: GraphQLBoolean, description: 'Always null: there is no table yet.' } };

/**
 * The GraphQL schema of a project's tables, for introspection: nothing in it can be executed. It is known to be valid,
 * and so not checked again; that would take longer than making it.
 */
export const graphqlSchema = ({ tables, queries, mutations }: WholeModel, onMade: OnMade): GraphQLSchema => {
  const types = makeTypes((name) => tables.has(name), onMade);
  return new GraphQLSchema({
    assumeValid: true,
    query: new GraphQLObjectType({
      name: 'query_root',
      fields: () => (queries.size > 0 ? fieldsOf(queries, types) : empty),
    }),
    mutation:
      mutations.size > 0
        ? new GraphQLObjectType({ name: 'mutation_root', fields: () => fieldsOf(mutations, types) })
        : null,
  });
};

type NamedTypes = Readonly<Record<string, GraphQLNamedType>>;

interface Named {
  /** Whether the tables have so many columns that unknown names are not compared with them. */
  readonly isWide: boolean;
  readonly query: GraphQLObjectType;
  readonly mutation: GraphQLObjectType;
  readonly types: NamedTypes;
}

/**
 * The part of a GraphQL schema that one document names. A schema of graphql-js makes all types at once, those of 10,000
 * tables in two seconds of the process, which does nothing else meanwhile.
 */
class DocumentSchema extends GraphQLSchema {
  readonly #named: Named;

  constructor(named: Named) {
    super({ assumeValid: true, extensions: { isWide: named.isWide } });
    const types = Object.assign(Object.create(null) as object, super.getTypeMap(), named.types);
    this.#named = { ...named, types };
  }

  override getQueryType(): GraphQLObjectType {
    return this.#named.query;
  }

  override getMutationType(): GraphQLObjectType {
    return this.#named.mutation;
  }

  override getTypeMap(): NamedTypes {
    return this.#named.types;
  }
}

/** A project's GraphQL: made of one version of its schema. */
export interface Graph {
  readonly data: DataSchema;
  readonly model: GraphModel;
  readonly read: (text: string) => Reading;
  /** The part of the schema that a document names. */
  readonly schemaOf: (document: Document) => GraphQLSchema;
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
  /** The number of columns of all types that were made so far. */
  readonly size: () => number;
}

interface Introspected {
  readonly selected: readonly SelectedField[];
  readonly variables: Fields;
}

/** The types of a table cost what those of ten columns do. */
const columnsPerTable = 10;
/** The types of so many columns take 75 ms of the process, which does nothing else meanwhile. */
const maxIntrospectedColumns = 5000;
/** A document needs a part of the types of each table. */
const maxDocumentColumns = 10_000;
/** Names that are near to an unknown one are looked for among so many columns: each comparison takes some µs. */
const maxSuggestedColumns = 1000;

/** Stops at once when it is too much: columns that are not needed are not even parsed. */
const areWithin = (max: number, tables: Iterable<Pick<Table, 'columns'>>): boolean => {
  let columns = 0;
  for (const table of tables) {
    columns += columnsPerTable + table.columns.size;
    if (columns > max) return false;
  }
  return true;
};

const everything = '*';
// Names of GraphQL have none.
const separator = ' ';

const aboutOf = ({ schema }: GraphModel, visible: ReadonlySet<string> | null): string => {
  if (visible === null) return everything;
  const names = [...schema.tables.keys()].filter(isName);
  const shown = names.filter((name) => visible.has(name));
  return shown.length === names.length ? everything : shown.join(separator);
};

/** The two that were asked for last are kept: end users of all kinds mostly see the same. */
const wholeSchemas = (
  model: GraphModel,
  onMade: OnMade,
): ((about: string, visible: ReadonlySet<string> | null) => GraphQLSchema) => {
  const made = new LRUCache<string, GraphQLSchema>({ max: 2 });
  return (about, visible) => {
    const known = made.get(about);
    if (known) return known;
    const shown = model.schema.tables.values().filter(({ name }) => visible?.has(name) !== false);
    if (!areWithin(maxIntrospectedColumns, shown))
      throw failure(
        'query_too_costly',
        `The tables have more than ${maxIntrospectedColumns} columns, too many to describe them all. Queries and mutations work.`,
      );
    const schema = graphqlSchema(wholeModel(model, visible), onMade);
    made.set(about, schema);
    return schema;
  };
};

const rootObject = (name: string, roots: Roots, types: Types): GraphQLObjectType =>
  new GraphQLObjectType({ name, fields: () => fieldsOf(roots, types) });

const rootsNamed = (names: ReadonlySet<string>, find: (name: string) => RootField | undefined): [string, RootField][] =>
  [...names].flatMap((name): [string, RootField][] => {
    const field = find(name);
    return field ? [[name, field]] : [];
  });

/** @throws {GraphQLError} when a document is about too much */
const checkDocument = (tables: ReadonlySet<GraphTable>): void => {
  if (!areWithin(maxDocumentColumns, tables))
    throw failure('query_too_costly', `The document is about tables with more than ${maxDocumentColumns} columns.`);
};

/** Makes of the schema what a document names; each type once. */
const documentSchemas = (model: GraphModel, onMade: OnMade): ((document: DocumentNode) => GraphQLSchema) => {
  const types = makeTypes((name) => model.table(name) !== undefined, onMade);
  return (document) => {
    const { fields, types: typeNames } = namesIn(document);
    const [queries, mutations] = [rootsNamed(fields, model.query), rootsNamed(fields, model.mutation)];
    const behindTypes = [...typeNames].flatMap((name) => tableOfType(name, model)?.table ?? []);
    const tables = new Set([...[...queries, ...mutations].map(([, { table }]) => table), ...behindTypes]);
    checkDocument(tables);
    const query = rootObject('query_root', queries, types);
    const hasNone = fields.has('no_tables') && queries.length === 0 && isEmpty(model);
    const mutation = rootObject('mutation_root', mutations, types);
    const named = [...typeNames].flatMap((name) => typeNamed(name, model, types) ?? []);
    const roots = [query, mutation].filter(({ name }) => typeNames.has(name));
    return new DocumentSchema({
      isWide: !areWithin(maxSuggestedColumns, tables),
      query: hasNone ? new GraphQLObjectType({ name: 'query_root', fields: empty }) : query,
      mutation,
      types: Object.fromEntries([...named, ...roots].map((type) => [type.name, type])),
    });
  };
};

const graphOf = (id: number, data: DataSchema, documents: DocumentCache): Graph => {
  const model = graphModel(data);
  let size = 0;
  const onMade: OnMade = (columns) => void (size += columns);
  const make = documentSchemas(model, onMade);
  const wholeSchema = wholeSchemas(model, onMade);
  // Cached documents do not hold the types of a schema that is no more.
  const schemas = new WeakMap<DocumentNode, GraphQLSchema>();
  const schemaOf = (source: DocumentNode): GraphQLSchema => {
    const schema = schemas.get(source) ?? make(source);
    schemas.set(source, schema);
    return schema;
  };
  return {
    data,
    model,
    size: () => size,
    schemaOf: ({ source }) => schemaOf(source),
    introspect: (operation, { selected, variables }, visible) => {
      const about = aboutOf(model, visible);
      return documents.answer(operation, about, () =>
        introspect(wholeSchema(about, visible), operation, selected, variables),
      );
    },
    read: (text) => {
      const key = `${id} ${text}`;
      const known = documents.document(key);
      if (known) return { document: known };
      const reading = readDocument(make, text);
      if (reading.document) documents.keep(key, reading.document);
      return reading;
    },
    compile: (operation, variables) =>
      documents.statement(operation, variables, () => compileQuery(model, operation, variables)),
  };
};

const maxGraphs = 50;
/** A column of a type takes some 2 kB. */
const maxColumns = 200_000;
/** A graph that is larger begins anew: what was asked of it lately is seldom all of it. */
const maxGraphColumns = 100_000;

/** GraphQL of the projects that asked lately. */
export const createGraphs = (
  limits = { columns: maxColumns, ofGraph: maxGraphColumns },
): ((projectId: string, data: DataSchema) => Graph) => {
  const graphs = new LRUCache<string, Graph>({
    max: maxGraphs,
    maxSize: limits.columns,
    sizeCalculation: (graph) => Math.min(graph.size() + 1, limits.columns),
  });
  const documents = createDocumentCache();
  let made = 0;
  return (projectId, data) => {
    const known = graphs.get(projectId);
    const isUsable = known?.data === data && known.size() <= limits.ofGraph;
    const graph = isUsable ? known : graphOf((made += 1), data, documents);
    // A graph grows with what is asked of it, and its size is taken only when it is new to the cache.
    graphs.delete(projectId);
    graphs.set(projectId, graph);
    return graph;
  };
};
