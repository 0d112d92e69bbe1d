import { type Kind, type SchemaObject, argumentsOf, titleOf } from './objects.ts';
import { bracketsOf, identifier, splitAt, splitBefore, splitBeforeEach } from './sql.ts';

/** The statements of a change. */
export interface Change {
  /** They delete nothing. */
  readonly safe: readonly string[];
  /** They stand in the draft as comments, for a person to decide. */
  readonly left: readonly string[];
  /** Questions to a person, each with the statement that would be the answer. */
  readonly questions?: readonly Question[];
}

export interface Question {
  readonly text: string;
  readonly sql: string;
}

const safe = (...statements: readonly string[]): Change => ({ safe: statements, left: [] });
const left = (...statements: readonly string[]): Change => ({ safe: [], left: statements });

const together = (changes: readonly Change[]): Change => ({
  safe: changes.flatMap((change) => change.safe),
  left: changes.flatMap((change) => change.left),
  questions: changes.flatMap((change) => change.questions ?? []),
});

const partOf = ({ parts }: SchemaObject, index: number): string => parts[index] ?? '';

/** An index is in the schema of its table, and its definition names it without. */
const indexName = (object: SchemaObject): string => {
  const [, schema] = new RegExp(`^(${identifier})\\.`).exec(partOf(object, 1)) ?? [];
  return schema === undefined ? partOf(object, 0) : `${schema}.${partOf(object, 0)}`;
};

const routineOf = ({ sql }: SchemaObject): string =>
  /^create or replace procedure/i.test(sql) ? 'procedure' : 'function';

const undoneDefault = ({ sql }: SchemaObject): string =>
  sql.replace(/ set default [\s\S]*$/, ' drop default').replace(/ set not null$/, ' drop not null');

/** The statement that deletes what an object is. */
const dropOf: Readonly<Partial<Record<Kind, (object: SchemaObject) => string>>> = {
  schema: ({ name }) => `drop schema ${name}`,
  extension: ({ name }) => `drop extension ${name}`,
  enum: ({ name }) => `drop type ${name}`,
  type: ({ name }) => `drop type ${name}`,
  domain: ({ name }) => `drop domain ${name}`,
  sequence: ({ name }) => `drop sequence ${name}`,
  function: (object) => `drop ${routineOf(object)} ${object.name}`,
  aggregate: ({ name }) => `drop aggregate ${name}`,
  cast: ({ name }) => `drop cast ${name}`,
  table: ({ name }) => `drop table ${name}`,
  view: ({ name }) => `drop view ${name}`,
  'materialized view': ({ name }) => `drop materialized view ${name}`,
  constraint: (object) => `alter table ${partOf(object, 0)} drop constraint ${partOf(object, 1)}`,
  index: (object) => `drop index ${indexName(object)}`,
  partition: (object) => `alter table only ${partOf(object, 0)} detach partition ${partOf(object, 1)}`,
  statistics: ({ name }) => `drop statistics ${name}`,
  rule: ({ name }) => `drop rule ${name}`,
  trigger: ({ name }) => `drop trigger ${name}`,
  policy: ({ name }) => `drop policy ${name}`,
  'row level security': (object) =>
    `alter table ${partOf(object, 0)} ${partOf(object, 1) === 'force' ? 'no force' : 'disable'} row level security`,
};

const undoneGrant = ({ sql }: SchemaObject): string =>
  sql.replace(/^grant /i, 'revoke ').replace(/ to (\S+?)(?: with grant option)?$/i, ' from $1');

/** The change by which an object goes. */
export const removed = (object: SchemaObject): Change => {
  if (object.kind === 'default') return safe(undoneDefault(object));
  if (object.kind === 'comment') return safe(`comment on ${object.name} is null`);
  if (object.kind === 'grant') return safe(undoneGrant(object));
  if (object.kind === 'sequence owner') return safe(`alter sequence ${object.name} owned by none`);
  if (object.kind === 'replica identity') return safe(`alter table only ${object.name} replica identity default`);
  if (object.kind === 'trigger state')
    return safe(`alter table ${partOf(object, 0)} enable trigger ${partOf(object, 1)}`);
  return left(dropOf[object.kind]?.(object) ?? `-- ${titleOf(object)} is not there any more`);
};

const literals = (sql: string): string[] => splitAt(bracketsOf(sql).inner, ',');

/** New values are added at their places, which writes no row anew; a value cannot be removed. */
const changedEnum = (from: SchemaObject, to: SchemaObject): Change => {
  const [before, after] = [literals(from.sql), literals(to.sql)];
  const kept = after.filter((value) => before.includes(value));
  if (kept.join(',') !== before.join(',')) {
    return left(`-- values of ${to.name} were removed, renamed or sorted: alter type ${to.name} rename value … to …`);
  }
  const known = [...before];
  const statements = after.flatMap((value, index) => {
    if (known.includes(value)) return [];
    const behind = after[index - 1];
    const next = after.slice(index + 1).find((one) => before.includes(one));
    known.push(value);
    if (behind !== undefined) return [`alter type ${to.name} add value ${value} after ${behind}`];
    return [`alter type ${to.name} add value ${value}${next === undefined ? '' : ` before ${next}`}`];
  });
  return safe(...statements);
};

interface Domain {
  readonly base: string;
  readonly default: string | null;
  readonly notNull: boolean;
  /** By their names. */
  readonly constraints: ReadonlyMap<string, string>;
}

const domainOf = (sql: string): Domain => {
  const [head = '', ...constraints] = splitBeforeEach(sql.replace(/^create domain \S+ as /i, ''), 'constraint');
  const notNull = / not null$/i.test(head);
  const [base, rest] = splitBefore(head.replace(/ not null$/i, ''), ['default']);
  return {
    base,
    default: rest === null ? null : rest.replace(/^default /i, ''),
    notNull,
    constraints: new Map(
      constraints.map((text) => [new RegExp(`^constraint (${identifier})`, 'i').exec(text)?.[1] ?? text, text]),
    ),
  };
};

const changedDomain = (from: SchemaObject, to: SchemaObject): Change => {
  const [before, after] = [domainOf(from.sql), domainOf(to.sql)];
  const alter = `alter domain ${to.name}`;
  if (before.base !== after.base) return left(`-- the type of ${to.name} is ${after.base} now, and was ${before.base}`);
  const changes: Change[] = [];
  if (before.default !== after.default) {
    changes.push(safe(after.default === null ? `${alter} drop default` : `${alter} set default ${after.default}`));
  }
  if (before.notNull !== after.notNull) changes.push(safe(`${alter} ${after.notNull ? 'set' : 'drop'} not null`));
  for (const [name, text] of before.constraints) {
    const now = after.constraints.get(name);
    if (now === undefined) changes.push(left(`${alter} drop constraint ${name}`));
    else if (now !== text) changes.push(safe(`${alter} drop constraint ${name}`, `${alter} add ${now}`));
  }
  for (const [name, text] of after.constraints) {
    if (!before.constraints.has(name)) changes.push(safe(`${alter} add ${text}`));
  }
  return together(changes);
};

const optionNames = (sql: string): string[] => {
  const [, options] = /^create view [\s\S]*? with \(([^)]*)\) as\n/.exec(sql) ?? [];
  return options === undefined ? [] : options.split(',').map((option) => (option.split('=', 1)[0] ?? '').trim());
};

/** The options stand in the statement, `security_invoker` among them: without it a view looks past its reader's rows. */
const changedView = (from: SchemaObject, to: SchemaObject): Change => {
  const gone = optionNames(from.sql).filter((name) => !optionNames(to.sql).includes(name));
  return safe(
    to.sql.replace(/^create view/i, 'create or replace view'),
    ...(gone.length === 0 ? [] : [`alter view ${to.name} reset (${gone.join(', ')})`]),
  );
};

const resultOf = (sql: string): string => /^returns [^\n]*/im.exec(bracketsOf(sql).after)?.[0] ?? '';

/** A function of another result, or whose arguments have other names, cannot be replaced. */
const changedFunction = (from: SchemaObject, to: SchemaObject): Change => {
  const isReplaceable = resultOf(from.sql) === resultOf(to.sql) && argumentsOf(from.sql) === argumentsOf(to.sql);
  return isReplaceable ? safe(to.sql) : safe(`drop ${routineOf(from)} ${from.name}`, to.sql);
};

const recreated = (from: SchemaObject, to: SchemaObject): Change =>
  safe(...[dropOf[from.kind]?.(from)].filter((sql) => sql !== undefined), to.sql);

const byHand = (_from: SchemaObject, to: SchemaObject): Change => left(`-- ${titleOf(to)} is now:`, to.sql);

const changers: Readonly<Partial<Record<Kind, (from: SchemaObject, to: SchemaObject) => Change>>> = {
  enum: changedEnum,
  domain: changedDomain,
  view: changedView,
  function: changedFunction,
  sequence: (_from, to) => safe(to.sql.replace(/^create (?:unlogged )?sequence/i, 'alter sequence')),
  constraint: recreated,
  index: recreated,
  trigger: recreated,
  policy: recreated,
  statistics: recreated,
  rule: recreated,
  comment: (_from, to) => safe(to.sql),
  default: (_from, to) => safe(to.sql),
  'sequence owner': (_from, to) => safe(to.sql),
  'trigger state': (_from, to) => safe(to.sql),
  'replica identity': (_from, to) => safe(to.sql),
  grant: (from, to) => safe(undoneGrant(from), to.sql),
};

/** The change of an object that is in both schemas, and differs; tables have a file of their own. */
export const changed = (from: SchemaObject, to: SchemaObject): Change => (changers[to.kind] ?? byHand)(from, to);
