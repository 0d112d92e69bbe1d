import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';

/** A text of SQL that somebody keeps: for himself, or for all members of the project. */
export interface Snippet {
  readonly id: string;
  readonly name: string;
  readonly sql: string;
  readonly shared: boolean;
  /** Goes up by one with each change. */
  readonly version: number;
  /** Whether it belongs to who asks. */
  readonly own: boolean;
  readonly updated_at: Date;
}

export interface SnippetText {
  readonly name: string;
  readonly sql: string;
  readonly shared: boolean;
}

/** The person who asks, and the project. */
export interface Reader {
  readonly projectId: string;
  readonly userId: string;
}

const maxSnippets = 500;
export const maxSqlLength = 64 * 1024;
/**
 * All snippets of a project together, in bytes: 8 KB each. A list of 200 has their texts, and control characters are six
 * times as long in JSON: with 64 KB each it was 78 MB.
 */
const maxTotalBytes = 4 * 1024 * 1024;

const columns = 'id, name, sql, shared, version, owner_id is not distinct from $2 as own, updated_at';
const visible = 'project_id = $1 and (shared or owner_id = $2)';

/** The snippets that a reader may see, by name. */
export const listSnippets = async (
  db: Queryable,
  { projectId, userId }: Reader,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ snippets: Snippet[]; total: number }> => {
  const snippets = await db.query<Snippet>(
    `select ${columns} from sql_snippets where ${visible} order by name, id limit $3 offset $4`,
    [projectId, userId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from sql_snippets where ${visible}`, [projectId, userId]),
  );
  return { snippets, total };
};

/** @throws {ServiceError} `not_found`, for what is another's, too */
export const findSnippet = async (db: Queryable, { projectId, userId }: Reader, id: string): Promise<Snippet> => {
  const snippet = await maybeOne(
    db.query<Snippet>(`select ${columns} from sql_snippets where ${visible} and id = $3`, [projectId, userId, id]),
  );
  if (snippet === undefined) throw notFound('snippet');
  return snippet;
};

const noRoom = (message: string): ServiceError =>
  new ServiceError('conflict', message, { hint: 'Delete those that nobody needs.' });

/**
 * Needs a transaction: who adds the last one that fits makes others wait.
 * @param replaced the id of the snippet whose place the text takes; left out: none
 * @throws {ServiceError} `conflict`
 */
const requireRoom = async (db: Queryable, projectId: string, sql: string, replaced?: string): Promise<void> => {
  await db.query(`select pg_advisory_xact_lock(hashtextextended('snippets ' || $1, 0))`, [projectId]);
  const others = await one(
    db.query<{ count: number; bytes: number }>(
      `select count(*) as count, coalesce(sum(octet_length(sql)), 0)::int as bytes from sql_snippets
       where project_id = $1 and id is distinct from $2`,
      [projectId, replaced ?? null],
    ),
  );
  if (others.count >= maxSnippets) throw noRoom(`A project may have ${maxSnippets} snippets.`);
  if (others.bytes + Buffer.byteLength(sql) > maxTotalBytes)
    throw noRoom(`The snippets of a project may have ${maxTotalBytes / 1024 / 1024} MB together.`);
};

/** Needs a transaction. @throws {ServiceError} `conflict` when the project has as many as it may, or as long ones */
export const createSnippet = async (
  db: Queryable,
  { projectId, userId }: Reader,
  { name, sql, shared }: SnippetText,
): Promise<Snippet> => {
  await requireRoom(db, projectId, sql);
  return one(
    db.query<Snippet>(
      `insert into sql_snippets (id, project_id, owner_id, name, sql, shared) values ($3, $1, $2, $4, $5, $6)
       returning ${columns}`,
      [projectId, userId, newId(), name, sql, shared],
    ),
  );
};

const ownersOnly = (): ServiceError =>
  new ServiceError('forbidden', 'Only who made a snippet can share it, or end that.');

/**
 * Replaces the version that the change names. Needs a transaction.
 * @throws {ServiceError} `not_found`; `conflict` when there is a later version, which is in `details`, or no room for the
 * text; `forbidden`
 */
export const replaceSnippet = async (
  db: Queryable,
  reader: Reader,
  { id, version, name, sql, shared }: SnippetText & { readonly id: string; readonly version: number },
): Promise<Snippet> => {
  const known = await findSnippet(db, reader, id);
  if (known.shared !== shared && !known.own) throw ownersOnly();
  // A shorter text fits also where there are too many of them.
  if (Buffer.byteLength(sql) > Buffer.byteLength(known.sql)) await requireRoom(db, reader.projectId, sql, id);
  const replaced = await maybeOne(
    db.query<Snippet>(
      `update sql_snippets set name = $4, sql = $5, shared = $6, version = version + 1, updated_at = now()
       where ${visible} and id = $3 and version = $7 returning ${columns}`,
      [reader.projectId, reader.userId, id, name, sql, shared, version],
    ),
  );
  if (replaced !== undefined) return replaced;
  const { version: present } = await findSnippet(db, reader, id);
  throw new ServiceError('conflict', 'Somebody has changed this snippet since. Nothing was written.', {
    details: { version: present },
    hint: 'Read it again, or keep yours as a new one.',
  });
};

/** @throws {ServiceError} `not_found` */
export const deleteSnippet = async (db: Queryable, { projectId, userId }: Reader, id: string): Promise<void> => {
  const deleted = await db.query(`delete from sql_snippets where ${visible} and id = $3 returning id`, [
    projectId,
    userId,
    id,
  ]);
  if (deleted.length === 0) throw notFound('snippet');
};
