import type { GraphQLSchema } from 'graphql';
import { LRUCache } from 'lru-cache';
import type { DataSchema } from '#domain/data-api/schema/types.ts';
import { type Reading, readDocument } from './document.ts';
import type { SelectedField } from './collect.ts';
import { introspect } from './introspection.ts';
import { type DocumentCache, createDocumentCache } from './document-cache.ts';
import type { Fields } from './literals.ts';
import { type GraphModel, graphModel } from './model.ts';
import { type CompiledQuery, type Operation, compileQuery } from './operation.ts';
import { graphqlSchema } from './schema.ts';
import { reducedModel } from './visible.ts';

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
