import { createHash } from 'node:crypto';
import { type ClientBase, DatabaseError } from 'pg';
import { DataError } from '#domain/data-api/errors.ts';
import { requireKeepable } from '#domain/data-api/idempotency.ts';
import type { IdempotencyKey } from '#domain/idempotency/idempotency.ts';
import { ServiceError } from '#lib/errors.ts';

/** A change that takes effect once for its key. */
export interface Once {
  readonly key: IdempotencyKey;
  /** Called when an earlier request's answer is returned. */
  readonly replayed: () => void;
}

const taken = 'select t.is_same, t.body from plinth_api.take_owner_key($1::pg_catalog.text, $2::pg_catalog.text) t';
const kept = `select plinth_api.keep_answer($1::pg_catalog.text, '200', '{}', $2::pg_catalog.text)`;

/** 33 bytes; what begins with one more than those of the data API is none of theirs. */
const nameOf = ({ key }: IdempotencyKey): string => `00${createHash('sha256').update(key).digest('hex')}`;

const noSpace = (error: unknown): unknown =>
  error instanceof DatabaseError && error.code === 'PLA02'
    ? new DataError(429, 'idempotency_keys_full', error.message, { hint: error.hint ?? null })
    : error;

interface Earlier {
  readonly body: string | null;
}

/** In a transaction. @returns the earlier answer; null when the key is this request's now */
const take = async (client: ClientBase, key: IdempotencyKey): Promise<Earlier | null> => {
  const params = [nameOf(key), key.fingerprint.toString('hex')];
  const { rows } = await client
    .query<{ is_same: boolean; body: string | null }>(taken, params)
    .catch((error: unknown) => Promise.reject(noSpace(error)));
  const [earlier] = rows;
  if (earlier === undefined) return null;
  if (!earlier.is_same) {
    throw new ServiceError('idempotency_mismatch', 'The Idempotency-Key was used for another request.', {
      hint: 'A key stands for one request and what it holds; take a new one.',
    });
  }
  return earlier;
};

const lessHint = 'Leave RETURNING out, or ask for fewer rows or columns; a statement that only reads needs no key.';

/**
 * Does the work once for a key, in the transaction of `client` that the caller has started and commits: the key and its
 * answer are recorded in it. Another request with the same key waits for it and gets that answer. Without a key it is
 * just done.
 * @returns what `work` answers, now or then
 * @throws {ServiceError} `idempotency_mismatch`
 * @throws {DataError} 54000 when the answer is larger than 1 MB, `idempotency_keys_full`
 */
export const onceAsOwner = async (
  client: ClientBase,
  once: Once | undefined,
  work: () => Promise<string>,
): Promise<string> => {
  if (once === undefined) return work();
  const earlier = await take(client, once.key);
  if (earlier !== null && earlier.body !== null) {
    once.replayed();
    return earlier.body;
  }
  const body = await work();
  requireKeepable(body, lessHint);
  // A statement of the user may have changed in what letters we are understood.
  await client.query(`set client_encoding to 'UTF8'`);
  await client.query(kept, [nameOf(once.key), body]);
  return body;
};

/**
 * The answer of an earlier request with this key, without taking it. In a transaction that is rolled back.
 * @throws {ServiceError} `idempotency_mismatch`
 */
export const earlierAnswer = async (client: ClientBase, { key, replayed }: Once): Promise<string | null> => {
  const body = (await take(client, key))?.body ?? null;
  if (body !== null) replayed();
  return body;
};
