import type { GraphQLSchema } from 'graphql';
import { LRUCache } from 'lru-cache';
import type { DataSchema } from '../schema/types.ts';
import { type Document, type Reading, readDocument } from './document.ts';
import type { Asked } from './collect.ts';
import { fits } from './inputs.ts';
import { introspect } from './introspection.ts';
import type { Fields } from './literals.ts';
import { type GraphModel, graphModel } from './model.ts';
import { type CompiledQuery, type Operation, compileQuery } from './operation.ts';
import { graphqlSchema } from './schema.ts';

/** A project's GraphQL: made of one version of its schema, with the documents that were asked of it. */
export interface Graph {
  readonly data: DataSchema;
  readonly model: GraphModel;
  readonly schema: GraphQLSchema;
  readonly read: (text: string) => Reading;
  /** @throws {GraphQLError} */
  readonly compile: (operation: Operation, variables: Fields) => CompiledQuery;
  /** `__schema` and `__type`, as JSON text by key. @throws {GraphQLError} */
  readonly introspect: (
    operation: Operation,
    asked: readonly Asked[],
    variables: Fields,
  ) => ReadonlyMap<string, string>;
}

// A document and its statements are some 20 to 50 kB.
const mostDocuments = 100;
const longestKept = 20_000;
/** Statements of one operation: what variables decide about makes several. */
const mostStatements = 8;

// Tools ask for all of it in the same words, again and again: of 100 tables that is 3 MB and 150 ms of the process.
const keepingLast = (schema: GraphQLSchema): Graph['introspect'] => {
  let last: { readonly operation: Operation; readonly texts: ReadonlyMap<string, string> } | undefined;
  return (operation, asked, variables) => {
    if (last?.operation === operation) return last.texts;
    const texts = introspect(schema, operation, asked, variables);
    if ((operation.node.variableDefinitions ?? []).length === 0) last = { operation, texts };
    return texts;
  };
};

const graphOf = (data: DataSchema): Graph => {
  const model = graphModel(data);
  const schema = graphqlSchema(model);
  const documents = new LRUCache<string, Document>({ max: mostDocuments });
  const compiled = new WeakMap<Operation, CompiledQuery[]>();
  return {
    data,
    model,
    schema,
    introspect: keepingLast(schema),
    read: (text) => {
      const known = documents.get(text);
      if (known) return { document: known };
      const reading = readDocument(schema, text);
      if (reading.document && text.length <= longestKept) documents.set(text, reading.document);
      return reading;
    },
    compile: (operation, variables) => {
      const known = compiled.get(operation) ?? [];
      const found = known.find(({ inputs }) => fits(inputs.trace, variables));
      if (found) return found;
      const made = compileQuery(model, operation, variables);
      compiled.set(operation, [made, ...known].slice(0, mostStatements));
      return made;
    },
  };
};

// One of 100 tables is some 10 MB.
const mostGraphs = 50;

/** GraphQL of the projects that asked lately. */
export const createGraphs = (): ((projectId: string, data: DataSchema) => Graph) => {
  const graphs = new LRUCache<string, Graph>({ max: mostGraphs });
  return (projectId, data) => {
    const known = graphs.get(projectId);
    if (known?.data === data) return known;
    const made = graphOf(data);
    graphs.set(projectId, made);
    return made;
  };
};
