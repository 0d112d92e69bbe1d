import { GraphQLError, parse, recommendedRules, specifiedRules, validate } from 'graphql';
import type { DocumentNode, FragmentDefinitionNode, GraphQLSchema, OperationDefinitionNode } from 'graphql';
import { failure } from './failure.ts';
import { normalizeDocument } from './normalize.ts';
import type { Operation } from './operation.ts';

// Rows to insert may be written in the document; what is larger belongs into variables.
const maxTokens = 50_000;
// Whether fields can be merged is asked for each pair of them.
const maxFields = 1000;
// The parser and those who walk what it made recurse.
const deepestNesting = 200;

/** A document that fits the schema it was read with. */
export interface Document {
  readonly source: DocumentNode;
  readonly operations: readonly Operation[];
}

export type Reading =
  | { readonly document: Document; readonly errors?: never }
  | { readonly document?: never; readonly errors: readonly GraphQLError[] };

/**
 * Counts brackets as if there were no strings and comments: what is refused for those in them would be deeper than
 * anything that makes sense.
 */
const isTooNested = (text: string): boolean => {
  let depth = 0;
  for (const [bracket] of text.matchAll(/[{}[\]()]/g)) {
    depth += '{[('.includes(bracket) ? 1 : -1;
    if (depth > deepestNesting) return true;
  }
  return false;
};

const countFields = (document: DocumentNode): number => {
  let count = 0;
  const sets = document.definitions.flatMap((one) => ('selectionSet' in one ? [one.selectionSet] : []));
  for (let set = sets.pop(); set !== undefined; set = sets.pop()) {
    count += set.selections.length;
    for (const node of set.selections) if ('selectionSet' in node && node.selectionSet) sets.push(node.selectionSet);
  }
  return count;
};

const parsed = (text: string): DocumentNode => {
  if (isTooNested(text))
    throw failure('query_too_deep', `The document is nested more than ${deepestNesting} levels deep.`);
  const document = parse(text, { maxLexicalTokens: maxTokens, maxComments: maxTokens });
  if (countFields(document) > maxFields)
    throw failure('query_too_costly', `The document selects more than ${maxFields} fields.`);
  return document;
};

const withCode = (code: string, error: GraphQLError): GraphQLError =>
  error.extensions['code'] === undefined
    ? new GraphQLError(error.message, {
        nodes: error.nodes,
        source: error.source,
        positions: error.positions,
        path: error.path,
        extensions: { ...error.extensions, code },
      })
    : error;

/** Gives errors of graphql-js a code. */
export const withCodes = (code: string, errors: readonly GraphQLError[]): readonly GraphQLError[] =>
  errors.map((error) => withCode(code, error));

const isOperation = (node: { kind: string }): node is OperationDefinitionNode => node.kind === 'OperationDefinition';
const isFragment = (node: { kind: string }): node is FragmentDefinitionNode => node.kind === 'FragmentDefinition';

const rules = [...new Set([...specifiedRules, ...recommendedRules])];

const operationsOf = (document: DocumentNode): Operation[] => {
  const fragments = new Map(document.definitions.filter(isFragment).map((one) => [one.name.value, one]));
  return document.definitions.filter(isOperation).map((node) => ({ node, fragments }));
};

/** Parses and validates. */
export const readDocument = (schema: GraphQLSchema, text: string): Reading => {
  try {
    const document = normalizeDocument(schema, parsed(text));
    const errors = validate(schema, document, rules, { maxErrors: 20 });
    if (errors.length > 0) return { errors: withCodes('validation_failed', errors) };
    return { document: { source: document, operations: operationsOf(document) } };
  } catch (error) {
    if (error instanceof GraphQLError) return { errors: withCodes('parse_failed', [error]) };
    throw error;
  }
};

/** The operation that a request means. @throws {GraphQLError} when there is none, or one of several has to be named */
export const chooseOperation = ({ operations }: Document, name: string | null): Operation => {
  const fits = name === null ? operations : operations.filter(({ node }) => node.name?.value === name);
  const [first] = fits;
  if (first !== undefined && fits.length === 1) return first;
  if (name !== null) throw failure('validation_failed', `The document has no operation ${JSON.stringify(name)}.`);
  throw failure(
    'validation_failed',
    first ? 'The document has several operations: operationName has to say which.' : 'The document has no operation.',
  );
};
