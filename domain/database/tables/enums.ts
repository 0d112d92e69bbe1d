import { type ClientBase, escapeLiteral, escapeIdentifier } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { withinBytes } from '#lib/postgres/within-bytes.ts';
import { checkName, invalidField } from './columns.ts';
import { nearestHint } from './describe.ts';
import { type SchemaChange, publicName } from './table-changes.ts';

export interface EnumPatch {
  readonly name?: string | undefined;
  readonly add?:
    | { readonly value: string; readonly before?: string | undefined; readonly after?: string | undefined }
    | undefined;
  readonly rename?: { readonly from: string; readonly to: string } | undefined;
}

/** Creates an enumerated type. */
export const createEnum =
  (name: string, values: readonly string[]): SchemaChange =>
  async () => {
    checkName(name, 'name');
    values.forEach((value, index) => checkName(value, `values.${index}`));
    if (new Set(values).size < values.length) throw invalidField('values', 'must differ from each other');
    return [`create type ${publicName(name)} as enum (${values.map((value) => escapeLiteral(value)).join(', ')})`];
  };

const labelsSql = `
  select coalesce(json_agg(e.enumlabel order by e.enumsortorder) filter (where e.oid is not null), '[]') as labels
  from pg_type t left join pg_enum e on e.enumtypid = t.oid
  where t.typtype = 'e' and t.typnamespace = 'public'::regnamespace and t.typname = $1
  group by t.oid`;

const namesSql = `
  select typname::text as name from pg_type where typtype = 'e' and typnamespace = 'public'::regnamespace
  order by typname limit 1000`;

/** Some 60,000 of the longest. Values can be made by SQL, half a million of them in one type. */
const maxLabelBytes = 4 * 1024 * 1024;

const readLabels = async (client: ClientBase, name: string): Promise<readonly string[] | null> => {
  const read = () => client.query<{ labels: string[] }>(labelsSql, [name]);
  try {
    const { rows } = await withinBytes(client, maxLabelBytes, read);
    return rows[0]?.labels ?? null;
  } catch (error) {
    if (!(error instanceof AnswerTooLarge)) throw error;
    throw new ServiceError('payload_too_large', 'The values of the type are more than 4 MB.', {
      hint: 'Change it by POST /db/query.',
    });
  }
};

/** @returns its values */
const requireEnum = async (client: ClientBase, name: string): Promise<readonly string[]> => {
  const labels = await readLabels(client, name);
  if (labels !== null) return labels;
  const { rows } = await client.query<{ name: string }>(namesSql);
  const hint = nearestHint(
    name,
    rows.map((row) => row.name),
  );
  throw new ServiceError('not_found', `There is no enumerated type ${JSON.stringify(name)}.`, hint);
};

const requireLabel = (labels: readonly string[], label: string | undefined, path: string): void => {
  if (label === undefined || labels.includes(label)) return;
  throw invalidField(path, 'is no value of the type', nearestHint(label, labels).hint);
};

const addSql = (labels: readonly string[], { value, before, after }: NonNullable<EnumPatch['add']>): string => {
  checkName(value, 'add.value');
  if (before !== undefined && after !== undefined) throw invalidField('add', 'must have one of before and after');
  requireLabel(labels, before, 'add.before');
  requireLabel(labels, after, 'add.after');
  const place =
    before !== undefined
      ? ` before ${escapeLiteral(before)}`
      : after !== undefined
        ? ` after ${escapeLiteral(after)}`
        : '';
  return `add value ${escapeLiteral(value)}${place}`;
};

/** Adds a value, renames one, or renames the type. A value cannot be taken away: rows may hold it. */
export const alterEnum =
  (name: string, { name: newName, add, rename }: EnumPatch): SchemaChange =>
  async (client) => {
    const labels = await requireEnum(client, name);
    const parts: string[] = [];
    if (rename !== undefined) {
      requireLabel(labels, rename.from, 'rename.from');
      checkName(rename.to, 'rename.to');
      parts.push(`rename value ${escapeLiteral(rename.from)} to ${escapeLiteral(rename.to)}`);
    }
    if (add !== undefined) parts.push(addSql(labels, add));
    if (newName !== undefined) {
      checkName(newName, 'name');
      parts.push(`rename to ${escapeIdentifier(newName)}`);
    }
    if (parts.length === 0) throw new ServiceError('validation_failed', 'The body names nothing to change.');
    return parts.map((part) => `alter type ${publicName(name)} ${part}`);
  };

/** Drops an enumerated type. */
export const dropEnum =
  (name: string, cascade: boolean): SchemaChange =>
  async (client) => {
    await requireEnum(client, name);
    return [`drop type ${publicName(name)}${cascade ? ' cascade' : ''}`];
  };
