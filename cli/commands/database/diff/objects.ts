import { bracketsOf, identifier as i, qualified as n, splitAt, splitBefore, statementsOf } from './sql.ts';

/** The kinds of statements in a schema, by which a change of one is written. */
export type Kind =
  | 'schema'
  | 'extension'
  | 'enum'
  | 'domain'
  | 'type'
  | 'sequence'
  | 'sequence owner'
  | 'function'
  | 'aggregate'
  | 'cast'
  | 'table'
  | 'view'
  | 'materialized view'
  | 'default'
  | 'constraint'
  | 'index'
  | 'partition'
  | 'replica identity'
  | 'statistics'
  | 'rule'
  | 'trigger'
  | 'trigger state'
  | 'row level security'
  | 'policy'
  | 'comment'
  | 'revoked'
  | 'grant'
  | 'other';

/** A statement of a schema, and what it makes. */
export interface SchemaObject {
  readonly kind: Kind;
  /** Names it within its kind. */
  readonly name: string;
  readonly sql: string;
  /** The names in it, as its form found them. */
  readonly parts: readonly string[];
}

/** In words, for people. */
export const titleOf = ({ kind, name }: SchemaObject): string => (kind === 'other' ? name : `${kind} ${name}`);

const form = (text: string): RegExp => new RegExp(`^${text}`, 'i');

/** Each with the part that names the object; two parts name what belongs to a table. */
const forms: readonly (readonly [Kind, RegExp])[] = [
  ['schema', form(`create schema (${i})`)],
  ['extension', form(`create extension if not exists (${i})`)],
  ['enum', form(`create type (${n}) as enum `)],
  ['type', form(`create type (${n}) as `)],
  ['domain', form(`create domain (${n}) as `)],
  ['cast', form(String.raw`create cast (\([\s\S]*?\)) with`)],
  ['sequence', form(`create (?:unlogged )?sequence (${n}) `)],
  ['sequence owner', form(`alter sequence (${n}) owned by `)],
  ['function', form(String.raw`create or replace (?:function|procedure) (${n}\()`)],
  ['aggregate', form(String.raw`create aggregate (${n}\()`)],
  ['table', form(`create (?:unlogged )?table (${n}) `)],
  ['view', form(`create view (${n})`)],
  ['materialized view', form(`create materialized view (${n})`)],
  ['default', form(`alter table only (${n}) alter column (${i}) (?:set|drop) (?:default|not null)`)],
  ['default', form(`alter view (${n}) alter column (${i}) set default`)],
  ['constraint', form(`alter table (${n}) add constraint (${i})`)],
  ['index', form(`create (?:unique )?index (${i}) on (?:only )?(${n})`)],
  ['partition', form(`alter table only (${n}) attach partition (${n})`)],
  ['replica identity', form(`alter table only (${n}) replica identity`)],
  ['statistics', form(`create statistics (${n})`)],
  ['rule', form(String.raw`create rule (${i}) as\s+on \w+ to (${n})`)],
  ['trigger', form(String.raw`create (?:constraint )?trigger (${i}) [\s\S]*? on (${n}) `)],
  ['trigger state', form(`alter table (${n}) (?:disable|enable replica|enable always) trigger (${i})`)],
  ['row level security', form(`alter table (${n}) (enable|force) row level security`)],
  ['policy', form(`create policy (${i}) on (${n}) `)],
  ['comment', form(String.raw`comment on ([\s\S]*?) is '`)],
  ['revoked', form(`revoke all on table (${n}) from`)],
  ['grant', form(String.raw`grant [\s\S]*? on ([\s\S]*?) to (${i}(?: with grant option)?)$`)],
];

/** In these the name of the object stands before that of its table; in the others behind it. */
const namedFirst: ReadonlySet<Kind> = new Set(['index', 'trigger', 'policy', 'rule']);

/** The types of the arguments of a function: what tells it from others of its name. */
export const argumentsOf = (sql: string): string =>
  splitAt(bracketsOf(sql).inner, ',')
    .map((argument) => splitBefore(argument, ['default'])[0])
    .filter((argument) => argument !== '')
    .join(', ');

const isPreamble = (sql: string): boolean => /^(?:set\b|select pg_catalog\.set_config)/i.test(sql);

const objectOf = (sql: string): SchemaObject => {
  for (const [kind, pattern] of forms) {
    const found = pattern.exec(sql);
    if (found === null) continue;
    const parts = found.slice(1);
    const [first = ''] = parts;
    if (kind === 'function' || kind === 'aggregate') {
      const name = `${first}${argumentsOf(sql)})`;
      return { kind, name, sql, parts: [name] };
    }
    const name = (namedFirst.has(kind) ? parts : parts.toReversed()).join(' on ');
    return { kind, name, sql, parts };
  }
  return { kind: 'other', name: sql.slice(0, 60).replaceAll(/\s+/g, ' '), sql, parts: [] };
};

/** The objects of a schema, in its order; two statements of one kind and name keep apart by their number. */
export const objectsOf = (sql: string): Map<string, SchemaObject> => {
  const objects = new Map<string, SchemaObject>();
  for (const statement of statementsOf(sql)) {
    if (isPreamble(statement)) continue;
    const object = objectOf(statement);
    const key = `${object.kind} ${object.name}`;
    let number = 1;
    while (objects.has(number === 1 ? key : `${key} ${number}`)) number += 1;
    objects.set(number === 1 ? key : `${key} ${number}`, object);
  }
  return objects;
};
