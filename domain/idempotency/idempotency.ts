/*
 * Idempotency keys: a request that is repeated with its key takes effect once and gets the first answer again. In the
 * transaction of the change a request claims its key (`claimKey`) and stores its answer (`keepAnswer`); a repeated one
 * finds that answer, or the job that was started (`findAnswer`). `releaseKey` frees the key of a job that was taken
 * back; after a day keys are deleted. api/idempotency.ts reads the header.
 */
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** One `Idempotency-Key` of a project or, outside a project, of a user. */
export interface IdempotencyKey {
  readonly scope: string;
  readonly key: string;
  /** The hash of method, path and body: the same key with another one is a mistake of the client. */
  readonly fingerprint: Buffer;
}

export interface StoredAnswer {
  readonly fingerprint: Buffer;
  readonly job_id: string | null;
  /** The job's project, which a new project's caller did not know when it asked. */
  readonly project_id: string | null;
  readonly status: number | null;
  readonly body: string | null;
}

/** Kept for a day. */
const idempotencyHours = 24;

/**
 * Takes the key for this request, in the transaction of its change: while another request holds it, this waits, and
 * sees its answer once it is committed. True: the key is ours, go on.
 */
export const claimKey = async (
  db: Queryable,
  { scope, key, fingerprint }: IdempotencyKey,
  jobId?: string,
): Promise<boolean> => {
  const rows = await db.query(
    `insert into idempotency_keys as k (scope, key, fingerprint, job_id) values ($1, $2, $3, $4)
     on conflict (scope, key) do update set fingerprint = excluded.fingerprint, job_id = excluded.job_id,
       status = null, body = null, created_at = now()
     where k.created_at < now() - make_interval(hours => $5)
     returning key`,
    [scope, key, fingerprint, jobId ?? null, idempotencyHours],
    'claim-idempotency-key',
  );
  return rows.length > 0;
};

/** @throws {ServiceError} `idempotency_mismatch` when the key was used for another request */
export const findAnswer = async (
  db: Queryable,
  { scope, key, fingerprint }: IdempotencyKey,
): Promise<StoredAnswer | undefined> => {
  const found = await maybeOne(
    db.query<StoredAnswer>(
      `select k.fingerprint, k.job_id, j.project_id, k.status, k.body
       from idempotency_keys k left join jobs j on j.id = k.job_id
       where k.scope = $1 and k.key = $2 and k.created_at >= now() - make_interval(hours => $3)`,
      [scope, key, idempotencyHours],
      'find-idempotency-key',
    ),
  );
  if (found && !found.fingerprint.equals(fingerprint)) {
    throw new ServiceError('idempotency_mismatch', 'This Idempotency-Key was used for another request.', {
      hint: 'Use a new key for a new request.',
    });
  }
  return found;
};

export const keepAnswer = async (
  db: Queryable,
  { scope, key }: IdempotencyKey,
  status: number,
  body: string,
): Promise<void> => {
  await db.query('update idempotency_keys set status = $3, body = $4 where scope = $1 and key = $2', [
    scope,
    key,
    status,
    body,
  ]);
};

/** Gives back a key whose job was taken back: the caller may try again with it. */
export const releaseKey = async (db: Queryable, { scope, key }: IdempotencyKey): Promise<void> => {
  await db.query(
    `delete from idempotency_keys k where k.scope = $1 and k.key = $2 and k.job_id is not null
       and not exists (select from jobs j where j.id = k.job_id)`,
    [scope, key],
  );
};

/** Removes what is older than a day, a bounded number at a time. */
export const sweepIdempotencyKeys = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from idempotency_keys where ctid = any (array(
       select ctid from idempotency_keys where created_at < now() - make_interval(hours => $1) limit 5000))`,
    [idempotencyHours],
  );
};
