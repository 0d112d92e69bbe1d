import type { Column, DataSchema, Relationship, Table } from '#domain/data-api/schema/schema.ts';
import type { FenceDb } from '#domain/database/console/fence.ts';

/** A policy of row-level security, as the server writes it. */
export interface Policy {
  readonly table: string;
  readonly name: string;
  readonly permissive: boolean;
  /** `ALL`, `SELECT`, … */
  readonly command: string;
  readonly roles: readonly string[];
  /** As `readPolicies` gives them, long expressions are cut, and huge ones `…`. */
  readonly using: string | null;
  readonly check: string | null;
}

/** The characters of an expression that are read. */
const maxRead = 1000;

/** Bytes of an expression's tree: larger ones, which no real condition has, take the server seconds to write. */
const maxTreeBytes = 200_000;

// One character more shows that the text goes on.
const expressionSql = (tree: string): string => `
  case when pg_catalog.octet_length(${tree}::pg_catalog.text) operator(pg_catalog.>) ${maxTreeBytes} then '…'
    else pg_catalog.left(pg_catalog.pg_get_expr(${tree}, p.polrelid), ${maxRead + 1}) end`;

const policiesSql = `
  select c.relname as "table", p.polname as name, p.polpermissive as permissive,
    case p.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' when 'd' then 'DELETE'
      else 'ALL' end as command,
    array(select case id when 0 then 'public' else pg_catalog.pg_get_userbyid(id) end::pg_catalog.text
      from pg_catalog.unnest(p.polroles) id order by 1 limit 20) as roles,
    ${expressionSql('p.polqual')} as "using", ${expressionSql('p.polwithcheck')} as "check"
  from pg_catalog.pg_policy p
  join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) p.polrelid
  join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
  where n.nspname operator(pg_catalog.=) 'public'
  order by c.relname, p.polname
  limit 1000`;

/** The policies of schema public, by table and name; the first 1,000, so some megabytes at most. */
export const readPolicies = (tenantDb: Pick<FenceDb, 'use'>, projectId: string): Promise<readonly Policy[]> =>
  tenantDb.use(projectId, 'reader', async (client) => (await client.query<Policy>(policiesSql)).rows);

export interface ContextOptions {
  /** The length of the text; tables that do not fit are left out, the least fitting first. */
  readonly maxChars: number;
  readonly policies?: readonly Policy[] | undefined;
  /** The purpose of the text: tables that it mentions come first. */
  readonly about?: string | undefined;
}

const maxLabels = 30;
const maxNameLength = 63;
const maxExpressionLength = 500;

const shortened = (text: string, max: number): string => (text.length > max ? `${text.slice(0, max)}…` : text);
const plainName = /^[a-z_][a-z0-9_$]*$/;
const nameText = (name: string): string =>
  plainName.test(name) ? name : JSON.stringify(shortened(name, maxNameLength));
const listOf = (names: readonly string[]): string => names.map(nameText).join(', ');

const labelsOf = ({ enumValues }: Column): string => {
  if (enumValues === null) return '';
  const labels = enumValues.slice(0, maxLabels).map((label) => JSON.stringify(shortened(label, maxNameLength)));
  return ` [${labels.join(', ')}${enumValues.length > maxLabels ? ', …' : ''}]`;
};

/** Whether there is a default, but not its value, which may be confidential. */
const columnText = (column: Column): string => {
  const { name, type, nullable, generated } = column;
  const marks = [
    ...(nullable ? [] : ['not null']),
    ...(generated ? ['generated'] : column.default === null ? [] : ['has default']),
  ];
  return `  ${[nameText(name), `${type}${labelsOf(column)}`, ...marks].join(' ')}`;
};

const keyText = ({ columns, target, targetColumns }: Relationship): string =>
  `  foreign key (${listOf(columns)}) references ${nameText(target)} (${listOf(targetColumns)})`;

/** A text, a number or a name of an expression as PostgreSQL writes it. The last text may lack its end. */
const wordOfSql = new RegExp(
  [
    String.raw`"(?:[^"]|"")*(?:"|$)`,
    String.raw`(?<text>[eE]'(?:[^'\\]|''|\\[\s\S]?)*(?:'|$)`,
    String.raw`(?:[uU]&|[bBnNxX])?'(?:[^']|'')*(?:'|$)`,
    String.raw`\$(?<tag>[\p{L}_][\p{L}\p{N}_]*)?\$[\s\S]*?(?:\$\k<tag>\$|$)`,
    String.raw`\d[\d.]*)`,
    // So that neither a prefix nor a number is seen within a name.
    String.raw`[\p{L}_][\p{L}\p{N}_$]*`,
  ].join('|'),
  'gu',
);

const maxTextLength = 11;
const likeKey =
  /^(?:[a-z]{2,6}[-_](?:live|test|prod)|sk|pk|rk|gh[a-z]|xox[a-z]|whsec|key|bearer)[-_ ]|^akia|\p{N}{6}/iu;
const mixed = /^(?=.*\p{N})(?=.*\p{L}).{8,}$/su;

/** Whether a text or number may be a secret. A short one, of words, is what makes a condition understood. */
const isInformative = (text: string): boolean => {
  const bare = text.replaceAll(/^(?:u&|[a-z])?'|'$/gi, '');
  return bare.length > maxTextLength || (text !== bare && (likeKey.test(bare) || mixed.test(bare)));
};

/** The expression without the texts that may be secrets, in one line. */
const conditionText = (expression: string): string => {
  const cut = expression.length > maxRead;
  const read = expression.slice(0, maxRead);
  const guarded = read.replaceAll(wordOfSql, (word: string, text: string | undefined, _tag: unknown, at: number) => {
    if (text === undefined) return word;
    const isCut = cut && at + word.length === read.length;
    return isCut || isInformative(text) ? "'…'" : word;
  });
  return shortened(`${guarded}${cut ? '…' : ''}`.replaceAll(/\s+/g, ' '), maxExpressionLength);
};

const policyText = ({ name, permissive, command, roles, using, check }: Policy): string =>
  [
    `  policy ${nameText(name)}${permissive ? '' : ' (restrictive)'} for ${command} to ${listOf(roles)}`,
    ...(using === null ? [] : [`using (${conditionText(using)})`]),
    ...(check === null ? [] : [`with check (${conditionText(check)})`]),
  ].join(' ');

/** Names, types and conditions are somebody's: none begins a line of its own, or opens or closes a tag of a prompt. */
const line = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').replaceAll('<', '&lt;');

const tableText = (table: Table, policies: readonly Policy[]): string => {
  const security = table.kind === 'table' ? `; row-level security ${table.rowSecurity ? 'on' : 'off'}` : '';
  const keys = table.relationships.filter(({ holdsKey, kind }) => holdsKey && kind !== 'many-to-many');
  return [
    `${table.kind} ${nameText(table.name)}${security}`,
    ...Array.from(table.columns.values(), columnText),
    ...(table.primaryKey.length > 0 ? [`  primary key (${listOf(table.primaryKey)})`] : []),
    ...keys.map(keyText),
    ...policies.filter(({ table: name }) => name === table.name).map(policyText),
  ]
    .map(line)
    .join('\n');
};

const wordsOf = (text: string): ReadonlySet<string> =>
  new Set(
    text
      .toLowerCase()
      .match(/[\p{L}\p{N}]{3,}/gu)
      ?.map((word) => word.replace(/s$/, '')),
  );

const shared = (names: Iterable<string>, words: ReadonlySet<string>): number =>
  Array.from(names).filter((name) => Array.from(wordsOf(name.replaceAll('_', ' '))).some((word) => words.has(word)))
    .length;

/**
 * The columns whose names are compared, some 10 ms of the process; the tables after them are ranked by their own names.
 */
const maxRankedColumns = 10_000;

/** A table's own name weighs more than any number of columns; what a fitting table refers to comes next to it. */
const byFitness = (tables: readonly Table[], about: string): Table[] => {
  const words = wordsOf(about);
  let compared = 0;
  const columnsOf = (table: Table): Iterable<string> => {
    if (compared > maxRankedColumns) return [];
    compared += table.columns.size;
    return table.columns.keys();
  };
  const own = new Map(
    tables.map((table) => [table.name, shared([table.name], words) * 100 + shared(columnsOf(table), words)]),
  );
  const fitness = ({ name, relationships }: Table): number =>
    (own.get(name) ?? 0) + relationships.reduce((most, { target }) => Math.max(most, own.get(target) ?? 0), 0) / 2;
  const ranked = tables.map((table) => ({ table, fits: fitness(table) }));
  return ranked.toSorted((a, b) => b.fits - a.fits || (a.table.name < b.table.name ? -1 : 1)).map(({ table }) => table);
};

const maxPassedOver = 20;

const restText = (names: readonly string[], maxChars: number): string => {
  if (names.length === 0) return '';
  const start = `${names.length} more, by name: `;
  const text = `${start}${line(listOf(names))}`;
  return shortened(text, Math.max(start.length, maxChars));
};

/**
 * Describes a project's tables to a model: names, types, keys, row-level security and policies. Never rows, comments,
 * values of defaults, or texts in policies that may be secrets. `&lt;` stands for `<`, so that no name ends a tag
 * around it.
 */
export const schemaContext = (schema: DataSchema, { maxChars, policies = [], about = '' }: ContextOptions): string => {
  const tables = byFitness(Array.from(schema.tables.values()), about);
  if (tables.length === 0) return 'Schema public has no tables.';
  // Some room stays for the names of those that do not fit.
  const room = maxChars * 0.85;
  const texts: string[] = [];
  const left: string[] = [];
  let length = 0;
  for (const table of tables) {
    // After some tables that do not fit no others are tried: there may be thousands.
    const text = left.length < maxPassedOver ? tableText(table, policies) : null;
    if (text === null || length + text.length + 2 > room) left.push(table.name);
    else {
      texts.push(text);
      length += text.length + 2;
    }
  }
  const rest = restText(left, maxChars - length - 2);
  return [...texts, ...(rest === '' ? [] : [rest])].join('\n\n').slice(0, maxChars).toWellFormed();
};
