import type { FieldNode, FragmentDefinitionNode, SelectionNode, SelectionSetNode } from 'graphql';
import type { SqlBuilder } from '../sql/sql.ts';
import type { Budget, ConditionBudget } from './document.ts';
import { failure, type GraphModel } from './model.ts';
import { type Inputs, valueOf } from './inputs.ts';

/** The state that one statement is compiled with. */
export interface Making {
  readonly model: GraphModel;
  readonly inputs: Inputs;
  readonly builder: SqlBuilder;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly budget: Budget;
  readonly conditions: ConditionBudget;
}

/** One key of an answer. Several nodes: the document asks for it more than once, and for the union. */
export interface SelectedField {
  readonly key: string;
  readonly name: string;
  readonly node: FieldNode;
  readonly sets: readonly SelectionSetNode[];
}

type ResolveVariables = Inputs['resolveVariables'];

const condition = (node: SelectionNode, name: 'skip' | 'include', resolveVariables: ResolveVariables): unknown => {
  const directive = node.directives?.find((one) => one.name.value === name);
  const value = directive?.arguments?.[0]?.value;
  return value === undefined ? undefined : resolveVariables(valueOf(value));
};

const isWanted = (node: SelectionNode, resolveVariables: ResolveVariables): boolean =>
  condition(node, 'skip', resolveVariables) !== true && condition(node, 'include', resolveVariables) !== false;

// PostgreSQL cuts longer names short, and the keys of the answer are names of columns on their way.
const maxKeyLength = 63;

type Found = Map<string, { node: FieldNode; sets: SelectionSetNode[] }>;

const addField = (node: FieldNode, found: Found): void => {
  const key = node.alias?.value ?? node.name.value;
  if (key.length > maxKeyLength)
    throw failure('validation_failed', `The alias is longer than ${maxKeyLength} letters.`, node);
  const known = found.get(key) ?? { node, sets: [] };
  if (node.selectionSet) known.sets.push(node.selectionSet);
  found.set(key, known);
};

type From = Pick<Making, 'inputs' | 'fragments' | 'budget'>;

const addSet = (set: SelectionSetNode, found: Found, from: From): void => {
  for (const node of set.selections) {
    from.budget.visit();
    if (!isWanted(node, from.inputs.resolveVariables)) continue;
    if (node.kind === 'Field') addField(node, found);
    else if (node.kind === 'InlineFragment') addSet(node.selectionSet, found, from);
    else {
      const fragment = from.fragments.get(node.name.value);
      if (fragment) addSet(fragment.selectionSet, found, from);
    }
  }
};

/**
 * Collects the selected fields, with fragments spread and directives applied. Every type is an object type, so that
 * every fragment that was found valid applies.
 */
export const collect = (sets: readonly SelectionSetNode[], from: From): SelectedField[] => {
  const found: Found = new Map();
  for (const set of sets) addSet(set, found, from);
  return [...found].map(([key, { node, sets: inner }]) => ({ key, name: node.name.value, node, sets: inner }));
};

/** An argument of a field; undefined without one. */
export const argument = ({ node }: SelectedField, name: string): unknown => {
  const found = node.arguments?.find((one) => one.name.value === name);
  return found === undefined ? undefined : valueOf(found.value);
};
