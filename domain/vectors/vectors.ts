/*
 * Vectors: texts of a project with their embeddings, in its own database. This file has writing and searching. The way
 * through this folder: collections.ts (what there is), embedding.ts (texts become vectors), documents.ts (rows),
 * session.ts (the connection, and its bounds).
 */
import { type ClientBase, escapeIdentifier } from 'pg';
import type { AiCaller, Gateway } from '#domain/ai/gateway/types.ts';
import type { FenceDb } from '#domain/database/console/fence.ts';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { ServiceError } from '#lib/errors.ts';
import { JsonText } from '#lib/json-text.ts';
import { type Collection, getCollection } from './collections.ts';
import { type Document, lockTable, otherModel, relabel, standingOf, tableOf, writeDocuments } from './documents.ts';
import { embedFor, vectorText } from './embedding.ts';
import { type WriterDb, inSession, writing } from './session.ts';

/*
 * Documents with their vectors, in tables of the project's own database. `collections.ts` makes and finds those tables,
 * after it has put pgvector there; `embedding.ts` has a model turn texts into vectors; `documents.ts` has the SQL of
 * the rows; `session.ts` opens the transactions, of which few write at a time. This file joins them: upsert and search.
 */

interface UpsertDeps extends ChangeListeners {
  readonly tenantDb: WriterDb;
  readonly gateway: Pick<Gateway, 'embed' | 'resolve'>;
}

interface Upsert {
  readonly collection: string;
  /** An embedding model; null: the collection's. */
  readonly model: string | null;
  /** With different ids. */
  readonly documents: readonly Document[];
}

export interface Upserted {
  readonly upserted: number;
  readonly unchanged: number;
  /** In the order of the documents. */
  readonly ids: readonly string[];
}

/** Texts that a provider is sent at once, and documents of one transaction. */
const batchSize = 96;
// While one batch is at the provider the other is written; and a project has four connections in a process.
const concurrency = 2;

/**
 * The model that documents are embedded with, `provider/model`.
 * @param wanted an embedding model; null: the collection's
 * @throws {ServiceError} `validation_failed`, `conflict`; what the gateway says of the name
 */
export const modelFor = async (
  gateway: Pick<Gateway, 'resolve'>,
  project: AiCaller['project'],
  wanted: string | null,
  { name, model: present }: Pick<Collection, 'name' | 'model'>,
): Promise<string> => {
  if (wanted === null && present === null) {
    const details = [{ path: 'model', message: 'is needed: the collection has no model yet' }];
    throw new ServiceError('validation_failed', 'The body is not valid.', { details });
  }
  if (present !== null && (wanted === null || wanted === present)) return present;
  const { provider, model } = await gateway.resolve(project, wanted ?? '', 'embedding');
  const meant = `${provider}/${model}`;
  if (present !== null && meant !== present) throw otherModel(name, present, meant);
  return meant;
};

interface Scene {
  readonly deps: UpsertDeps;
  readonly caller: AiCaller;
  readonly collection: Collection;
  readonly model: string;
}

/** @returns how many were written */
const upsertBatch = async (
  { deps, caller, collection, model }: Scene,
  documents: readonly Document[],
): Promise<number> => {
  const of = { projectId: caller.project.id, signal: caller.signal };
  const { changed, relabelled } = await inSession(deps.tenantDb, { ...of, mode: 'read' }, (client) =>
    standingOf(client, collection, { model, documents }),
  );
  const written = changed.length + relabelled.length;
  if (written === 0) return 0;
  // No connection is held while the provider is asked.
  const texts = changed.map(({ content }) => content);
  const vectors = texts.length === 0 ? [] : await embedFor(deps.gateway, caller, collection, { model, texts });
  await writing({ tenantDb: deps.tenantDb, caller }, async (client) => {
    await lockTable(client, collection, 'row exclusive');
    await writeDocuments(client, collection, { model, documents: changed, vectors });
    await relabel(client, collection, relabelled);
  });
  noteChange(deps, of.projectId, { schema: false, rows: true });
  return written;
};

/** Batches in shards. The first failure stops all of them; it is thrown once none is at work any more. */
const concurrently = async (
  documents: readonly Document[],
  work: (batch: readonly Document[]) => Promise<void>,
): Promise<void> => {
  let next = 0;
  let hasFailed = false;
  const worker = async (): Promise<void> => {
    while (next < documents.length && !hasFailed) {
      const batch = documents.slice(next, (next += batchSize));
      try {
        await work(batch);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: concurrency }, worker));
  const failure = ends.find((end) => end.status === 'rejected');
  if (failure) throw failure.reason;
};

/**
 * Embeds documents and writes them; the same id replaces. Documents with unchanged text are not embedded again. Each
 * document is written whole or not at all; batches of a failed request may have been written: repeated, they count as
 * unchanged.
 * @param progress told from 0 to 100
 * @throws {ServiceError} `not_found`, `conflict` (another model, another table), `dimension_mismatch`,
 * `provider_bad_output`, `vector_extension_unavailable`; what the gateway throws
 * @throws {DataError} what the database refused: `plan_limit_exceeded`, or an SQLSTATE of the project's own rules
 */
export const upsertDocuments = async (
  deps: UpsertDeps,
  caller: AiCaller,
  order: Upsert,
  progress: (percent: number) => void = () => undefined,
): Promise<Upserted> => {
  const { documents } = order;
  const collection = await getCollection(deps.tenantDb, caller.project.id, order.collection);
  const model = await modelFor(deps.gateway, caller.project, order.model, collection);
  let [upserted, seen] = [0, 0];
  await concurrently(documents, async (batch) => {
    const written = await upsertBatch({ deps, caller, collection, model }, batch);
    // Not in one expression: the other shard counts, too, while this one waits.
    upserted += written;
    seen += batch.length;
    progress((seen / documents.length) * 100);
  });
  return { upserted, unchanged: documents.length - upserted, ids: documents.map(({ id }) => id) };
};

interface SearchDeps {
  readonly tenantDb: FenceDb;
  readonly gateway: Pick<Gateway, 'embed'>;
}

interface Search {
  readonly collection: string;
  readonly query: string;
  /** 1 to 200. */
  readonly limit: number;
  /** The JSON object that the metadata must contain, as text; null: anything. */
  readonly filter: string | null;
}

export interface Found {
  readonly id: string;
  readonly content: string;
  /** 1 minus the cosine distance: 1 for the same direction, -1 for the opposite. */
  readonly similarity: number;
  /** As it is stored, so that numbers are as they were written. */
  readonly metadata: JsonText;
}

/** The bound of an answer: SQL can write documents of any length. */
const maxBytes = 16 * 1024 * 1024;

// With 50,000 vectors of 384 dimensions in 200 clouds these settings find 98 % of the ten nearest
// (bench/ai/vectors.ts).
const minCandidates = 240;
const maxCandidates = 1000;
const maxScanned = 20_000;

const settingsOf = (limit: number): string => `select
  set_config('hnsw.ef_search', '${Math.min(maxCandidates, Math.max(minCandidates, limit * 2))}', true),
  set_config('hnsw.iterative_scan', 'relaxed_order', true),
  set_config('hnsw.max_scan_tuples', '${maxScanned}', true)`;

interface Nearest {
  readonly collection: Collection;
  readonly vector: string;
  readonly search: Search;
}

const sizeSql = 'sum(octet_length(n.id)::bigint + octet_length(n.content) + octet_length(n.metadata::text)) over ()';

/**
 * @param isExact an order without an index: every matching document is read
 * @param isExact an order that no index knows: every document that fits is looked at
 */
const nearestSql = (collection: Collection, hasFilter: boolean, isExact: boolean): string => {
  const types = escapeIdentifier(collection.type_schema);
  const distance = `d.embedding operator(${types}.<=>) $1::${types}.vector${collection.column_type === 'vector' ? '' : `::${types}.halfvec`}`;
  // Not a number where a vector that somebody wrote by SQL is zero: those come last.
  return `
  with nearest as materialized (
    select d.id, d.content, d.metadata, ${distance} as distance from ${tableOf(collection)} d
    ${hasFilter ? 'where d.metadata @> $3::jsonb' : ''}
    order by ${isExact ? `(${distance}) + 0` : distance} limit $2::bigint),
  measured as (
    select n.*, ${sizeSql} <= ${maxBytes} as fits from nearest n)
  select n.fits, case when n.fits then n.id end as id, case when n.fits then n.content end as content,
    case when n.fits then n.metadata::text end as metadata,
    case when n.distance = 'NaN' then 0 else 1 - n.distance end as similarity
  from measured n order by n.distance, n.id`;
};

interface Row extends Omit<Found, 'metadata'> {
  /** The bytes of all rows together; beyond them no row is returned. */
  readonly fits: boolean;
  readonly metadata: string;
}

const tooMuch = (limit: number): ServiceError =>
  new ServiceError('validation_failed', 'The documents that were found are more than 16 MB.', {
    details: [{ path: 'limit', message: `must be less than ${limit}, or shorter documents must be found` }],
    hint: 'Ask for fewer documents.',
  });

const nearest = async (
  client: ClientBase,
  { collection, vector, search: { limit, filter } }: Nearest,
  isExact: boolean,
): Promise<Found[]> => {
  const params = [vector, limit, ...(filter === null ? [] : [filter])];
  const { rows } = await client.query<Row>(nearestSql(collection, filter !== null, isExact), params);
  return rows.map(({ fits, metadata, ...found }) => {
    if (!fits) throw tooMuch(limit);
    return { ...found, metadata: new JsonText(metadata) };
  });
};

/** The index gives up after so many documents that do not match; then all are read. */
const nearestOf = async (client: ClientBase, wanted: Nearest): Promise<Found[]> => {
  await lockTable(client, wanted.collection, 'access share');
  if (!wanted.collection.is_indexed) return nearest(client, wanted, true);
  await client.query(settingsOf(wanted.search.limit));
  const found = await nearest(client, wanted, false);
  return found.length < wanted.search.limit ? nearest(client, wanted, true) : found;
};

/**
 * The documents nearest to a text, the nearest first: as many as there are that fit, up to the limit. A collection that
 * nothing was ever embedded for has none, and no provider is asked.
 * @throws {ServiceError} `not_found`, `conflict` (another table), `dimension_mismatch`, `vector_extension_unavailable`;
 *   `validation_failed` when what was found is more than 16 MB; what the gateway throws
 * @throws {DataError} 57014 when it takes too long
 */
export const searchDocuments = async (
  { tenantDb, gateway }: SearchDeps,
  caller: AiCaller,
  search: Search,
): Promise<Found[]> => {
  const projectId = caller.project.id;
  const collection = await getCollection(tenantDb, projectId, search.collection);
  const { model } = collection;
  if (model === null || collection.document_count === 0) return [];
  const [vector] = await embedFor(gateway, caller, collection, { model, texts: [search.query] });
  if (vector === undefined) return [];
  return inSession(tenantDb, { projectId, signal: caller.signal, mode: 'read' }, (client) =>
    nearestOf(client, { collection, vector: vectorText(vector), search }),
  );
};
