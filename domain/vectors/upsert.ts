import type { AiCaller, Gateway } from '#domain/ai/gateway/types.ts';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { ServiceError } from '#lib/errors.ts';
import { type Collection, getCollection } from './collections.ts';
import { type Document, lockTable, otherModel, relabel, standingOf, writeDocuments } from './documents.ts';
import { embedFor } from './embedding.ts';
import { inSession } from './session.ts';
import { type WriterDb, writing } from './writing.ts';

export interface UpsertDeps extends ChangeListeners {
  readonly tenantDb: WriterDb;
  readonly gateway: Pick<Gateway, 'embed' | 'resolve'>;
}

export interface Upsert {
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
export const batchSize = 96;
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
