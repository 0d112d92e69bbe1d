import { Kind, executeSync } from 'graphql';
import type { DocumentNode, GraphQLSchema } from 'graphql';
import type { Asked } from './collect.ts';
import type { Fields } from './literals.ts';
import type { Operation } from './operation.ts';

/** What the GraphQL schema says about itself, as JSON text by the keys that were asked for. */
export const introspect = (
  schema: GraphQLSchema,
  { node, fragments }: Operation,
  asked: readonly Asked[],
  variables: Fields,
): ReadonlyMap<string, string> => {
  const selections = asked.map(({ node: field, sets }) => ({
    ...field,
    selectionSet: { kind: Kind.SELECTION_SET, selections: sets.flatMap((set) => set.selections) } as const,
  }));
  const document: DocumentNode = {
    kind: Kind.DOCUMENT,
    definitions: [{ ...node, selectionSet: { kind: Kind.SELECTION_SET, selections } }, ...fragments.values()],
  };
  // The root's own directives have been followed.
  const { data, errors } = executeSync({ schema, document, variableValues: variables });
  if (errors?.[0]) throw errors[0];
  return new Map(Object.entries(data ?? {}).map(([key, value]) => [key, JSON.stringify(value)]));
};
