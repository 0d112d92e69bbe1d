import type { FragmentDefinitionNode, OperationDefinitionNode } from 'graphql';
import type { AnswerBody } from '#domain/data-api/answer-body.ts';
import type { RunRows, Sql } from '../data-api.ts';
import { createSqlBuilder, bodyOf, partsSql } from '../sql/sql.ts';
import { aggregateSql, tableSource, listSql, oneSql } from './select.ts';
import { type Budget, createBudget, createConditionBudget } from './document.ts';
import {
  type Which,
  deleteSql,
  insertSql,
  keySql,
  updateSql,
  type Running,
  insertNested,
  insertOneNested,
  isNested,
  responseSql,
  rowSql,
} from './changes.ts';
import { type Making, type SelectedField, argument, collect } from './collect.ts';
import { type Inputs, type Trace, bound, inputsOf, type Fields, isFields } from './inputs.ts';
import type { GraphModel, GraphTable, RootField } from './model.ts';

/** A document's operation, as it was written. */
export interface Operation {
  readonly node: OperationDefinitionNode;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
}

/** One key of the answer, and what it takes. */
type RootPart =
  /** JSON text that is known already. */
  | { readonly kind: 'text'; readonly key: string; readonly text: string }
  /** `__schema`, `__type`: answered from the GraphQL schema. */
  | { readonly kind: 'introspection'; readonly key: string; readonly selected: SelectedField }
  /** A text that the statement answers. */
  | { readonly kind: 'column'; readonly key: string };

/** A query as one statement: each of the texts that it answers (`partsSql`) is the JSON of one key. */
export interface CompiledQuery {
  readonly parts: readonly RootPart[];
  /** Null when nothing of the database is asked for. */
  readonly sql: Sql | null;
  /** Not the inputs themselves: what is kept of a query must not keep the values of who asked first. */
  readonly trace: Trace;
}

const outermost = { level: 1, rows: 1 };

const keyOf = (selected: SelectedField, table: GraphTable): Fields =>
  Object.fromEntries(table.key.map(({ name }) => [name, argument(selected, name)]));

const querySql = ({ kind, table }: RootField, selected: SelectedField, making: Making): string => {
  const source = () => tableSource(table, making.builder);
  if (kind === 'list') return listSql({ selected, table, source: source(), place: outermost }, making);
  if (kind === 'aggregate') {
    return aggregateSql({ selected, table, source, place: outermost, nodesSql: nodesOf }, making);
  }
  const one = source();
  const where = keySql(table, keyOf(selected, table), one.alias, making);
  return oneSql({ sets: selected.sets, table, source: one, place: outermost, where }, making);
};

const nodesOf: Parameters<typeof aggregateSql>[0]['nodesSql'] = (listed, nodes, making) =>
  listSql({ ...listed, selected: { ...listed.selected, sets: nodes.sets } }, making);

const isIntrospection = (name: string): boolean => name === '__schema' || name === '__type';

const makingOf = (model: GraphModel, { fragments }: Operation, inputs: Inputs, budget: Budget): Making => ({
  model,
  inputs,
  builder: createSqlBuilder(),
  fragments,
  budget,
  conditions: createConditionBudget(),
});

/** @throws {GraphQLError} when it asks for too much, or for what is not there */
export const compileQuery = (model: GraphModel, operation: Operation, variables: Fields): CompiledQuery => {
  const inputs = inputsOf(variables, 'late');
  const making = makingOf(model, operation, inputs, createBudget());
  const columns: string[] = [];
  const selected = collect([operation.node.selectionSet], making);
  making.budget.fields(selected.length, 1);
  const parts = selected.map((one): RootPart => {
    const { key, name } = one;
    if (name === '__typename') return { kind: 'text', key, text: '"query_root"' };
    if (isIntrospection(name)) return { kind: 'introspection', key, selected: one };
    const field = model.query(name);
    if (!field) return { kind: 'text', key, text: 'null' };
    columns.push(`${querySql(field, one, making)}::text`);
    return { kind: 'column', key };
  });
  const sql = columns.length === 0 ? null : making.builder.finish(partsSql(columns, making.builder));
  return { parts, sql, trace: inputs.trace };
};

type Step = (running: Running) => Promise<AnswerBody | null>;

const alone =
  (write: (making: Making) => string): Step =>
  async ({ making, finish, rows }) => {
    const own = making();
    return bodyOf(await rows(finish(write(own), own)));
  };

/** Returns the objects of an insert; none for other mutations. */
const objectsOf = (selected: SelectedField, { inputs }: Making): unknown[] => {
  const given =
    inputs.resolveVariables(argument(selected, 'objects')) ??
    inputs.resolveVariables(argument(selected, 'object')) ??
    [];
  return (Array.isArray(given) ? given : [given]).map((one: unknown) => inputs.resolveVariables(one));
};

const insertStep =
  (table: GraphTable, selected: SelectedField, isOne: boolean): Step =>
  (running) => {
    const onConflict = argument(selected, 'on_conflict');
    const making = running.making();
    const objects = objectsOf(selected, making);
    if (isNested(table, objects, making)) {
      const insert = isOne ? insertOneNested : insertNested;
      return insert(table, { objects, onConflict }, selected, running);
    }
    return alone((own) => {
      const change = { table, ...insertSql(table, objects.filter(isFields), onConflict, own) };
      return isOne ? rowSql(selected, change, own) : responseSql(selected, change, own);
    })(running);
  };

const changesOf = (selected: SelectedField, which: Which) => ({
  set: argument(selected, '_set'),
  inc: argument(selected, '_inc'),
  which,
});

const keyFields = (selected: SelectedField, { inputs }: Making): Fields => {
  const key = inputs.resolveVariables(argument(selected, 'pk_columns'));
  return isFields(key) ? key : {};
};

const stepOf = ({ kind, table }: RootField, selected: SelectedField): Step => {
  const where = { where: argument(selected, 'where') };
  switch (kind) {
    case 'insert':
      return insertStep(table, selected, false);
    case 'insert_one':
      return insertStep(table, selected, true);
    case 'update':
      return alone((own) =>
        responseSql(selected, { table, ...updateSql(table, changesOf(selected, where), own) }, own),
      );
    case 'update_by_pk':
      return alone((own) => {
        const which = { key: keyFields(selected, own) };
        return rowSql(selected, { table, ...updateSql(table, changesOf(selected, which), own) }, own);
      });
    case 'delete':
      return alone((own) => responseSql(selected, { table, ...deleteSql(table, where, own) }, own));
    case 'delete_by_pk':
      return alone((own) =>
        rowSql(selected, { table, ...deleteSql(table, { key: keyOf(selected, table) }, own) }, own),
      );
    case 'list':
    case 'aggregate':
    case 'by_pk':
      throw new Error(`${selected.name} is no mutation`);
    default:
      return kind satisfies never;
  }
};

/** One field of a mutation: executed in order, it returns its JSON text. */
export interface MutationPart {
  readonly key: string;
  /** Whether it takes one statement: a transaction is needed for more. */
  readonly isSingle: boolean;
  readonly run: (rows: RunRows) => Promise<AnswerBody>;
}

/** The fields of a mutation, in their order. @throws {GraphQLError} */
export const mutationParts = (model: GraphModel, operation: Operation, variables: Fields): MutationPart[] => {
  const inputs = inputsOf(variables, 'now');
  const budget = createBudget();
  const making = (): Making => makingOf(model, operation, inputs, budget);
  const finish: Running['finish'] = (text, own) => {
    const sql = own.builder.finish(text);
    return { text: sql.text, params: bound(sql.params, inputs.trace, variables) };
  };
  const selected = collect([operation.node.selectionSet], making());
  budget.fields(selected.length, 1);
  return selected.map((one) => {
    const field = model.mutation(one.name);
    if (!field) return { key: one.key, isSingle: false, run: () => Promise.resolve('"mutation_root"') };
    const step = stepOf(field, one);
    const isSingle = !isNested(field.table, objectsOf(one, making()), making());
    return { key: one.key, isSingle, run: async (rows) => (await step({ rows, making, finish })) ?? 'null' };
  });
};
