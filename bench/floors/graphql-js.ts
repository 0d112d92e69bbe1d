import {
  type DocumentNode,
  type ExecutionResult,
  GraphQLFloat,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLSchema,
  GraphQLString,
  execute,
  parse,
  validate,
} from 'graphql';
import type { Pool } from 'pg';

const list = {
  name: 'list',
  text: `select id, category, name, price, tags, created_at from public.items
    where category = $1 order by created_at desc limit $2`,
};

const item = new GraphQLObjectType({
  name: 'items',
  fields: {
    id: { type: new GraphQLNonNull(GraphQLFloat) },
    category: { type: new GraphQLNonNull(GraphQLInt) },
    name: { type: new GraphQLNonNull(GraphQLString) },
    price: { type: GraphQLFloat },
    tags: { type: new GraphQLList(GraphQLString) },
    created_at: { type: GraphQLString, resolve: ({ created_at: at }: { created_at: Date }) => at.toISOString() },
  },
});

const schema = new GraphQLSchema({
  query: new GraphQLObjectType({
    name: 'query_root',
    fields: {
      items: {
        type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(item))),
        args: { category: { type: GraphQLInt }, limit: { type: GraphQLInt } },
        resolve: async (_root, { category, limit }: { category: number; limit: number }, pool: Pool) =>
          (await pool.query({ ...list, values: [category, limit] })).rows,
      },
    },
  }),
});

const documents = new Map<string, DocumentNode>();

const documentOf = (text: string): DocumentNode => {
  const known = documents.get(text);
  if (known) return known;
  const document = parse(text);
  const [error] = validate(schema, document);
  if (error) throw error;
  documents.set(text, document);
  return document;
};

/**
 * GraphQL as graphql-js does it: the document parsed and validated once, one prepared statement of pg for the rows, a
 * resolver for each value.
 */
export const answerByGraphqlJs = async (
  pool: Pool,
  query: string,
  variables: Readonly<Record<string, unknown>>,
): Promise<ExecutionResult> =>
  execute({ schema, document: documentOf(query), variableValues: variables, contextValue: pool });
