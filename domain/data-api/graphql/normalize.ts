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
} from 'graphql';
import type {
  DocumentNode,
  GraphQLInputType,
  GraphQLSchema,
  ObjectFieldNode,
  ObjectValueNode,
  OperationDefinitionNode,
  ValueNode,
  VariableDefinitionNode,
} from 'graphql';
import { isComparison } from './comparison-types.ts';
import { type Fields, isFields, plainNumber } from './literals.ts';
import { isOperator } from './where.ts';

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

export const normalizeDocument = (schema: GraphQLSchema, document: DocumentNode): DocumentNode => {
  const variables = comparisonVariables(document);
  const types = new TypeInfo(schema);
  const enter = (node: ObjectFieldNode): ObjectFieldNode | undefined => {
    const type = types.getInputType();
    const named = type && getNamedType(type);
    if (!(named instanceof GraphQLInputObjectType) || !isComparison(named.name)) return undefined;
    if (!isBareNode(node.value, named.name, (name) => variables.has(name))) return undefined;
    return { ...node, value: asComparison(node.value) };
  };
  return visit(document, visitWithTypeInfo(types, { ObjectField: { enter } }));
};

const isBare = (value: unknown, type: string): boolean => !isFields(value) || isBareObject(Object.keys(value), type);

const fieldValue = (value: unknown, type: GraphQLInputType): unknown => {
  const isColumn = type instanceof GraphQLInputObjectType && isComparison(type.name);
  if (!isColumn || !isBare(value, type.name)) return normal(value, type);
  return normal(value === null ? { _is_null: true } : { _eq: value }, type);
};

/** Numbers that GraphQL's own types read become JavaScript's; all others stay as they were written. */
const normal = (value: unknown, type: GraphQLInputType): unknown => {
  if (type instanceof GraphQLNonNull) return normal(value, type.ofType);
  if (value === null || value === undefined) return value;
  if (type instanceof GraphQLList) {
    const element = type.ofType;
    return Array.isArray(value) ? value.map((one) => normal(one, element)) : normal(value, element);
  }
  if (!(type instanceof GraphQLInputObjectType))
    return ['Int', 'Float'].includes(type.name) ? plainNumber(value) : value;
  if (!isFields(value)) return value;
  const fields = type.getFields();
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const field = fields[name];
      return [name, field ? fieldValue(one, field.type) : one];
    }),
  );
};

/** The variables of a request, as the types of the operation's definitions read them. */
export const normalizeVariables = (
  schema: GraphQLSchema,
  { variableDefinitions = [] }: OperationDefinitionNode,
  variables: Fields,
): Fields => {
  const typed = variableDefinitions.flatMap((definition) => {
    const name = definition.variable.name.value;
    const type = typeOfVariable(schema, definition);
    return type && Object.hasOwn(variables, name) ? [[name, normal(variables[name], type)] as const] : [];
  });
  return Object.fromEntries(typed);
};
