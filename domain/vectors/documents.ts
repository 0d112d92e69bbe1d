import { createHash } from 'node:crypto';
import { type ClientBase, escapeIdentifier } from 'pg';
import type { FenceDb } from '#domain/database/console/fence.ts';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import { type Collection, requireCollection } from './collections.ts';
import { type Vectors, vectorArray } from './embedding.ts';
import { inSession } from './session.ts';

export interface Document {
  readonly id: string;
  readonly content: string;
  /** A JSON object as text: numbers stay as they were written. */
  readonly metadata: string;
}

export const tableOf = ({ name }: Pick<Collection, 'name'>): string => `public.${escapeIdentifier(name)}`;

/**
 * Ensures, until the end of the transaction, that the table of that name is the one that was found: SQL can rename it
 * and give its name to another while a provider is called.
 * @throws {ServiceError} `conflict` when it is another, `not_found` when there is none
 */
export const lockTable = async (
  client: ClientBase,
  collection: Pick<Collection, 'name' | 'relation'>,
  mode: 'access share' | 'row exclusive',
): Promise<void> => {
  const table = tableOf(collection);
  await client.query(`lock table ${table} in ${mode} mode`);
  const { rows } = await client.query<{ relation: string }>(
    'select to_regclass($1::text)::oid::int8::text as relation',
    [table],
  );
  if (rows[0]?.relation === collection.relation) return;
  throw new ServiceError(
    'conflict',
    `Another table has the name of the collection ${JSON.stringify(collection.name)}.`,
  );
};

/** The text from which the vector was made. */
const hashOf = (model: string, { content }: Document): string =>
  createHash('sha256').update(`${model}\n${content}`).digest('hex');

const idsOf = (documents: readonly Document[]): string[] => documents.map(({ id }) => id);
const metadataOf = (documents: readonly Document[]): string[] => documents.map(({ metadata }) => metadata);

/** The documents of a batch that exist already. */
export interface Standing {
  /** New, or with another content: to be embedded. */
  readonly changed: readonly Document[];
  /** With other metadata only. */
  readonly relabelled: readonly Document[];
}

// The content may have been changed by SQL since it was embedded: then its hash is another's.
const standingSql = (table: string): string => `
  select n.id, d.metadata = n.metadata::jsonb as is_same
  from unnest($1::text[], $2::text[], $3::text[]) as n (id, hash, metadata)
    join ${table} d on d.id = n.id and d.content_hash = decode(n.hash, 'hex')
      and d.content_hash = sha256(convert_to($4::text || chr(10) || d.content, 'UTF8'))`;

/**
 * Compares documents with those of the same ids, in an open transaction.
 * @throws as `lockTable`
 */
export const standingOf = async (
  client: ClientBase,
  collection: Collection,
  { model, documents }: { readonly model: string; readonly documents: readonly Document[] },
): Promise<Standing> => {
  await lockTable(client, collection, 'access share');
  const hashes = documents.map((document) => hashOf(model, document));
  const { rows } = await client.query<{ id: string; is_same: boolean }>(standingSql(tableOf(collection)), [
    idsOf(documents),
    hashes,
    metadataOf(documents),
    model,
  ]);
  const known = new Map(rows.map(({ id, is_same: isSame }) => [id, isSame]));
  return {
    changed: documents.filter(({ id }) => !known.has(id)),
    relabelled: documents.filter(({ id }) => known.get(id) === false),
  };
};

/** @throws {ServiceError} `conflict`, `not_found` */
const takeModel = async (client: ClientBase, { relation, name }: Collection, model: string): Promise<void> => {
  const { rows } = await client.query<{ model: string | null }>(
    'select plinth_api.use_collection_model($1::oid, $2::text) as model',
    [relation, model],
  );
  const inForce = rows[0]?.model ?? null;
  if (inForce === null) throw notFound('collection');
  if (inForce !== model) throw otherModel(name, inForce, model);
};

/** Vectors of two models cannot be compared. */
export const otherModel = (name: string, present: string, wanted: string): ServiceError =>
  new ServiceError('conflict', `The collection ${JSON.stringify(name)} is embedded with ${present}, not ${wanted}.`, {
    hint: 'Make another collection for another model.',
  });

// In one order, so that two who write the same documents do not wait for each other.
const writeSql = (table: string, { type_schema: schema, column_type: type }: Collection): string => {
  const types = escapeIdentifier(schema);
  return `
  insert into ${table} as d (id, content, metadata, embedding, content_hash)
  select n.id, n.content, n.metadata::jsonb, n.embedding${type === 'vector' ? '' : `::${types}.${type}`}, decode(n.hash, 'hex')
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::${types}.vector[]) as n (id, content, metadata, hash, embedding)
  order by n.id collate "C"
  on conflict (id) do update set content = excluded.content, metadata = excluded.metadata,
    embedding = excluded.embedding, content_hash = excluded.content_hash, updated_at = now()`;
};

export interface Embedded {
  readonly model: string;
  readonly documents: readonly Document[];
  readonly vectors: Vectors;
}

/**
 * Writes documents with their vectors, in an open transaction. The first to write sets the collection's model.
 * @throws {ServiceError} `conflict` when it has another model by now; `not_found` when it is gone
 */
export const writeDocuments = async (
  client: ClientBase,
  collection: Collection,
  { model, documents, vectors }: Embedded,
): Promise<void> => {
  if (documents.length === 0) return;
  await takeModel(client, collection, model);
  await client.query(writeSql(tableOf(collection), collection), [
    idsOf(documents),
    documents.map(({ content }) => content),
    metadataOf(documents),
    documents.map((document) => hashOf(model, document)),
    vectorArray(vectors, collection.vector_type),
  ]);
};

/** Gives documents other metadata, in an open transaction. */
export const relabel = async (
  client: ClientBase,
  collection: Collection,
  documents: readonly Document[],
): Promise<void> => {
  if (documents.length === 0) return;
  await client.query(
    `update ${tableOf(collection)} d set metadata = n.metadata::jsonb, updated_at = now()
     from unnest($1::text[], $2::text[]) as n (id, metadata) where d.id = n.id`,
    [idsOf(documents), metadataOf(documents)],
  );
};

export interface DocumentDeps extends ChangeListeners {
  readonly tenantDb: FenceDb;
}

export interface DocumentOf {
  readonly projectId: string;
  readonly collection: string;
  readonly id: string;
  readonly signal: Disconnection;
}

/** @throws {ServiceError} `not_found`, `vector_extension_unavailable` */
export const deleteDocument = async (
  deps: DocumentDeps,
  { projectId, collection, id, signal }: DocumentOf,
): Promise<void> => {
  await inSession(deps.tenantDb, { projectId, signal, mode: 'write' }, async (client) => {
    const found = await requireCollection(client, collection);
    await lockTable(client, found, 'row exclusive');
    const { rowCount } = await client.query(`delete from ${tableOf(found)} where id = $1::text`, [id]);
    if (rowCount === 0) throw notFound('document');
  });
  noteChange(deps, projectId, { schema: false, rows: true });
};
