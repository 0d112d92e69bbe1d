import {
  GraphQLInputObjectType,
  GraphQLList,
  GraphQLNonNull,
  Kind,
  TypeInfo,
  getNamedType,
  typeFromAST,
  visit,
  visitWithTypeInfo,
  type DocumentNode,
  type GraphQLInputType,
  type GraphQLSchema,
  type ObjectFieldNode,
  type ObjectValueNode,
  type OperationDefinitionNode,
  type ValueNode,
  type VariableDefinitionNode,
  GraphQLError,
  parse,
  recommendedRules,
  specifiedRules,
  validate,
  type FragmentDefinitionNode,
} from 'graphql';
import { isComparison } from './types.ts';
import { type Fields, isFields, plainNumber, hasValues, seenOf } from './inputs.ts';
import { isOperator } from './where.ts';
import { failure } from './model.ts';
import type { Operation, CompiledQuery } from './operation.ts';
import { LRUCache } from 'lru-cache';

/**
 * The interface's form of `where`, an object of column to value, is rewritten to Hasura's, an object of column to
 * comparison, before anything else reads it: in the document and in the variables.
 */

const comparing = (name: string, value: ValueNode): ObjectValueNode => ({
  kind: Kind.OBJECT,
  fields: [{ kind: Kind.OBJECT_FIELD, name: { kind: Kind.NAME, value: name }, value, loc: value.loc }],
  loc: value.loc,
});

/** JSON that is compared with is an object, too, whose keys are no operators. */
const isBareObject = (keys: readonly string[], type: string): boolean =>
  type.startsWith('json') && keys.length > 0 && !keys.some(isOperator);

const isBareNode = (value: ValueNode, type: string, isVariableComparison: (name: string) => boolean): boolean => {
  if (value.kind === 'Variable') return !isVariableComparison(value.name.value);
  if (value.kind !== 'ObjectValue') return true;
  return isBareObject(
    value.fields.map(({ name }) => name.value),
    type,
  );
};

const asComparison = (value: ValueNode): ObjectValueNode =>
  value.kind === 'NullValue'
    ? comparing('_is_null', { kind: Kind.BOOLEAN, value: true, loc: value.loc })
    : comparing('_eq', value);

const typeOfVariable = (schema: GraphQLSchema, { type }: VariableDefinitionNode): GraphQLInputType | undefined =>
  typeFromAST(schema, type) as GraphQLInputType | undefined;

/** The names of the variables that hold whole comparisons. A fragment is used by several operations: by any of them. */
const comparisonVariables = (document: DocumentNode): Set<string> => {
  const found = new Set<string>();
  const nameOf = (type: VariableDefinitionNode['type']): string =>
    type.kind === 'NamedType' ? type.name.value : nameOf(type.type);
  for (const definition of document.definitions) {
    if (definition.kind !== 'OperationDefinition') continue;
    for (const { variable, type } of definition.variableDefinitions ?? [])
      if (isComparison(nameOf(type))) found.add(variable.name.value);
  }
  return found;
};

/** graphql-js visits each field of a type for each object, those that are left out included: 40 ns each. */
const maxInputFields = 1_000_000;

type Spend = (type: GraphQLInputObjectType) => void;

/** Counts the fields of the types of objects. @throws {GraphQLError} when they are too many */
const createInputBudget = (): Spend => {
  const sizes = new Map<GraphQLInputObjectType, number>();
  let left = maxInputFields;
  return (type) => {
    const size = sizes.get(type) ?? Object.keys(type.getFields()).length;
    sizes.set(type, size);
    left -= size;
    if (left < 0)
      throw failure(
        'query_too_costly',
        `The objects of the request have more than ${maxInputFields} fields together, those that are left out included: send fewer objects at a time.`,
      );
  };
};

const normalizeDocument = (schema: GraphQLSchema, document: DocumentNode): DocumentNode => {
  const variables = comparisonVariables(document);
  const types = new TypeInfo(schema);
  const spend = createInputBudget();
  const count = (): void => {
    const type = types.getInputType();
    const named = type && getNamedType(type);
    if (named instanceof GraphQLInputObjectType) spend(named);
  };
  const enter = (node: ObjectFieldNode): ObjectFieldNode | undefined => {
    const type = types.getInputType();
    const named = type && getNamedType(type);
    if (!(named instanceof GraphQLInputObjectType) || !isComparison(named.name)) return undefined;
    if (!isBareNode(node.value, named.name, (name) => variables.has(name))) return undefined;
    return { ...node, value: asComparison(node.value) };
  };
  return visit(document, visitWithTypeInfo(types, { ObjectField: { enter }, ObjectValue: count }));
};

const isBare = (value: unknown, type: string): boolean => !isFields(value) || isBareObject(Object.keys(value), type);

const fieldValue = (value: unknown, type: GraphQLInputType, spend: Spend): unknown => {
  const isColumn = type instanceof GraphQLInputObjectType && isComparison(type.name);
  if (!isColumn || !isBare(value, type.name)) return normal(value, type, spend);
  return normal(value === null ? { _is_null: true } : { _eq: value }, type, spend);
};

/** Numbers that GraphQL's own types read become JavaScript's; all others stay as they were written. */
const normal = (value: unknown, type: GraphQLInputType, spend: Spend): unknown => {
  if (type instanceof GraphQLNonNull) return normal(value, type.ofType, spend);
  if (value === null || value === undefined) return value;
  if (type instanceof GraphQLList) {
    const element = type.ofType;
    return Array.isArray(value) ? value.map((one) => normal(one, element, spend)) : normal(value, element, spend);
  }
  if (!(type instanceof GraphQLInputObjectType))
    return ['Int', 'Float'].includes(type.name) ? plainNumber(value) : value;
  if (!isFields(value)) return value;
  spend(type);
  const fields = type.getFields();
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const field = fields[name];
      return [name, field ? fieldValue(one, field.type, spend) : one];
    }),
  );
};

/**
 * The variables of a request, as the types of the operation's definitions read them.
 * @throws {GraphQLError} when they are too many
 */
export const normalizeVariables = (
  schema: GraphQLSchema,
  { variableDefinitions = [] }: OperationDefinitionNode,
  variables: Fields,
): Fields => {
  const spend = createInputBudget();
  const typed = variableDefinitions.flatMap((definition) => {
    const name = definition.variable.name.value;
    const type = typeOfVariable(schema, definition);
    return type && Object.hasOwn(variables, name) ? [[name, normal(variables[name], type, spend)] as const] : [];
  });
  return Object.fromEntries(typed);
};

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

/** The options of graphql-js, for documents and for variables. */
export const validationOptions = ({ extensions }: GraphQLSchema) => ({
  maxErrors: 20,
  hideSuggestions: extensions['isWide'] === true,
});

/** The names of fields and of types in a document. */
export const namesIn = (document: DocumentNode): Readonly<Record<'fields' | 'types', ReadonlySet<string>>> => {
  const [fields, types] = [new Set<string>(), new Set<string>()];
  visit(document, {
    Field: ({ name }) => void fields.add(name.value),
    NamedType: ({ name }) => void types.add(name.value),
  });
  return { fields, types };
};

/**
 * Parses and validates.
 * @param schemaOf the schema, or as much of it as a document names
 */
export const readDocument = (schemaOf: (document: DocumentNode) => GraphQLSchema, text: string): Reading => {
  try {
    const source = parsed(text);
    const schema = schemaOf(source);
    const document = normalizeDocument(schema, source);
    const errors = validate(schema, document, rules, validationOptions(schema));
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

// The bounds of the whole process: a client that sends large documents evicts others' documents, and gets no more than
// this.
const maxBytes = 32 * 1024 * 1024;
/** The longest text of a cached document. */
const maxDocumentLength = 20_000;
/**
 * The longest cached statement, with its values and the variables that it was compiled for; larger ones are compiled
 * each time.
 */
const maxStatementLength = 16_384;
/** The longest cached answer about the schema, in characters. */
const maxAnswerLength = 1024 * 1024;
/** Statements of one document: what variables decide about makes several. */
const maxStatements = 8;
/** Roles that see different tables. */
const maxAnswers = 2;
// A parsed document holds 75 bytes for each letter that people write, and 200 where only fields stand.
const bytesForLetter = 100;
/** The part of a schema that a document with variables is read with holds so much beside its types. */
const bytesOfSchema = 4096;

interface Statement {
  readonly operation: Operation;
  /** `seenOf` the variables that it was made for. */
  readonly seen: string;
  readonly compiled: CompiledQuery;
  readonly bytes: number;
}

interface Answer {
  readonly operation: Operation;
  /** The tables that the answer describes. */
  readonly about: string;
  readonly texts: ReadonlyMap<string, string>;
  readonly bytes: number;
}

interface Entry {
  readonly document: Document;
  readonly letters: number;
  readonly statements: readonly Statement[];
  readonly answers: readonly Answer[];
}

/** Documents, and what was made of them. Small things only, and so many bytes of them altogether. */
export interface DocumentCache {
  readonly document: (key: string) => Document | undefined;
  /** @param key names the schema that it was read with, too */
  readonly keep: (key: string, document: Document) => void;
  readonly statement: (operation: Operation, variables: Fields, make: () => CompiledQuery) => CompiledQuery;
  /**
   * @param about the tables that it describes
   */
  readonly answer: (operation: Operation, about: string, make: () => Answer['texts']) => Answer['texts'];
}

const sum = (list: readonly { readonly bytes: number }[]): number =>
  list.reduce((total, { bytes }) => total + bytes, 0);

const sizeOf = ({ letters, statements, answers }: Entry): number =>
  letters * bytesForLetter + bytesOfSchema + 2 * (sum(statements) + sum(answers));

const lettersOf = (texts: Iterable<string | null>): number => {
  let letters = 0;
  for (const text of texts) letters += text?.length ?? 0;
  return letters;
};

const withStatement = (entry: Entry, made: Statement): Entry => ({
  ...entry,
  statements: [made, ...entry.statements].slice(0, maxStatements),
});

const withAnswer = (entry: Entry, made: Answer): Entry => ({
  ...entry,
  answers: [made, ...entry.answers].slice(0, maxAnswers),
});

const findStatement = ({ statements }: Entry, operation: Operation, variables: Fields): CompiledQuery | undefined => {
  // Variables may be large: those of several statements are written out once.
  const written = new Map<string, string>();
  const isSeen = ({ compiled: { trace }, seen }: Statement): boolean => {
    const names = [...trace.seen].join(' ');
    const json = written.get(names) ?? seenOf(trace, variables);
    written.set(names, json);
    return json === seen;
  };
  return statements.find(
    (one) => one.operation === operation && hasValues(one.compiled.trace, variables) && isSeen(one),
  )?.compiled;
};

const statementOf = (operation: Operation, variables: Fields, compiled: CompiledQuery): Statement => {
  const seen = seenOf(compiled.trace, variables);
  const { text = '', params = [] } = compiled.sql ?? {};
  return { operation, seen, compiled, bytes: seen.length + text.length + lettersOf(params) };
};

/** @param max bytes */
export const createDocumentCache = (max = maxBytes): DocumentCache => {
  const entries = new LRUCache<string, Entry>({ maxSize: max, sizeCalculation: sizeOf });
  const keys = new WeakMap<Operation, string>();
  const entryOf = (operation: Operation): { readonly key: string; readonly entry: Entry } | undefined => {
    const key = keys.get(operation);
    const entry = key === undefined ? undefined : entries.get(key);
    return key === undefined || entry === undefined ? undefined : { key, entry };
  };
  return {
    document: (key) => entries.get(key)?.document,
    keep: (key, document) => {
      if (key.length > maxDocumentLength) return;
      for (const operation of document.operations) keys.set(operation, key);
      entries.set(key, { document, letters: key.length, statements: [], answers: [] });
    },
    statement: (operation, variables, make) => {
      const known = entryOf(operation);
      const found = known && findStatement(known.entry, operation, variables);
      if (found) return found;
      const compiled = make();
      if (known === undefined) return compiled;
      const made = statementOf(operation, variables, compiled);
      if (made.bytes <= maxStatementLength) entries.set(known.key, withStatement(known.entry, made));
      return compiled;
    },
    answer: (operation, about, make) => {
      const known = entryOf(operation);
      const found = known?.entry.answers.find((one) => one.operation === operation && one.about === about);
      if (found) return found.texts;
      const texts = make();
      const bytes = lettersOf(texts.values()) + about.length;
      // Documents with other values of deciding variables have answers of their own.
      const isFixed = (operation.node.variableDefinitions ?? []).length === 0;
      if (known !== undefined && isFixed && bytes <= maxAnswerLength)
        entries.set(known.key, withAnswer(known.entry, { operation, about, texts, bytes }));
      return texts;
    },
  };
};

/** Levels of fields, the root's included (contract, section 5). */
const deepest = 10;
/** Rows that may come back, plus fields (contract, section 5). */
const highestCost = 1000;
/** Rows of a list that says no limit: as many as come, at most. */
export const defaultLimit = 100;
/** The assumed size of a list within rows that has no limit. */
const usualRows = 5;
// Fragments in fragments multiply: 30 lines can ask for a billion fields.
const maxVisits = 10_000;
/** Comparisons, the words that join them, and terms of an order, of one statement. */
const maxConditions = 1000;

/** Keeps count of what one statement's conditions ask for, and throws once it is too much. */
export interface ConditionBudget {
  readonly condition: () => void;
}

export const createConditionBudget = (): ConditionBudget => {
  let conditions = 0;
  return {
    condition: () => {
      conditions += 1;
      if (conditions > maxConditions)
        throw failure('query_too_costly', `There are more than ${maxConditions} conditions.`, undefined, manyValues);
    },
  };
};

const manyValues = 'Many values of one column are one condition: {id: {_in: [1, 2, 3]}}.';

/** Keeps count of what an operation asks for. Every method throws once it is too much. */
export interface Budget {
  /** One selection, wherever it stands. */
  readonly visit: () => void;
  /** Fields of one level. @param level 1 at the root */
  readonly fields: (count: number, level: number) => void;
  /**
   * Rows of a list, for each of `outer` rows.
   * @param limit null without one
   * @returns how many rows are to be reckoned with within it
   */
  readonly rows: (outer: number, limit: number | null, isRoot: boolean) => number;
}

export const createBudget = (): Budget => {
  let visits = 0;
  let cost = 0;
  const spend = (amount: number): void => {
    cost += amount;
    if (cost > highestCost)
      throw failure(
        'query_too_costly',
        `The operation may bring more than ${highestCost} rows and fields together. Lower its limits: a list without one counts ${defaultLimit} rows, one within rows ${usualRows} for each.`,
      );
  };
  return {
    visit: () => {
      visits += 1;
      if (visits > maxVisits) throw failure('query_too_costly', `The operation selects more than ${maxVisits} times.`);
    },
    fields: (count, level) => {
      if (level > deepest) throw failure('query_too_deep', `The operation is more than ${deepest} levels deep.`);
      spend(count);
    },
    rows: (outer, limit, isRoot) => {
      const rows = outer * (limit ?? (isRoot ? defaultLimit : usualRows));
      spend(rows);
      return rows;
    },
  };
};
