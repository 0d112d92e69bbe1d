import { noteInProject } from '#domain/audit/audit.ts';
import type { JobRequest } from '#domain/jobs/jobs.ts';
import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import { usersImport } from '#queues/users-import.ts';
import type { Administrator } from './administration.ts';
import type { EndUserDeps } from './end-users.ts';
import { AuthError } from './errors.ts';
import { parseForeignHash } from './foreign-hashes.ts';
import {
  type ImportFault,
  type ImportedUser,
  type ReadImport,
  type RefusedImport,
  maxListedFaults,
} from './import-reader.ts';
import { sealHash } from './passwords.ts';
import { appMetadataOf, maxUsersOf } from './sign-up.ts';
import { userEventSql } from './users.ts';

/*
 * Users of another system move in. A thread reads the body into parts (import-reader.ts), which wait sealed in the
 * control database, in the transaction of the job. The job writes a part with one statement, which also notes what it
 * did: a run that died is repeated, and counts nobody twice.
 */

const reader = { module: new URL('import-reader.ts', import.meta.url).href, name: 'importReader' } as const;

/** Sealed parts that one project may have waiting: two of the largest requests. */
const maxWaitingBytes = 100 * 1024 * 1024;

const aboutPart = (jobId: string, number: number): string => `user-import:${jobId}:${number}`;

/**
 * Reads the body of an import.
 * @param owner whose work it is
 * @throws {ServiceError} `invalid_json`, `validation_failed`, `overloaded`
 */
export const readImport = async (
  json: Pick<JsonParser, 'readUnchecked'>,
  bytes: Buffer,
  owner: string,
): Promise<ReadImport> => {
  const read = (await json.readUnchecked(bytes, reader, { owner })) as ReadImport | RefusedImport;
  if ('refusal' in read) throw new ServiceError(read.refusal.code, read.refusal.message);
  return read;
};

const requireRoomForParts = async (db: Queryable, projectId: string): Promise<void> => {
  const { bytes } = await one(
    db.query<{ bytes: number }>(
      'select coalesce(sum(octet_length(sealed)), 0)::float8 as bytes from user_import_parts where project_id = $1',
      [projectId],
    ),
  );
  if (bytes <= maxWaitingBytes) return;
  throw new ServiceError('queue_full', 'Too many users of this project wait to be imported. Nothing was accepted.', {
    hint: 'Try again when some imports have ended, or cancel those that failed.',
    headers: { 'Retry-After': '30' },
  });
};

/**
 * The job of an import, and the rows that are written with it.
 * @throws {ServiceError} `queue_full`
 */
export const importRequest = async (
  { deps, db, project, actor }: Administrator,
  { total, parts, faults, failed }: ReadImport,
  requestId: string,
): Promise<JobRequest<typeof usersImport>> => {
  await requireRoomForParts(db, project.id);
  const sealer = deps.sealer(project);
  return {
    job: usersImport,
    projectId: project.id,
    requestId,
    data: { total, faults: [...faults], failed },
    alongside: async (tx, jobId) => {
      for (const [number, part] of parts.entries()) {
        const sealed = sealer.seal(aboutPart(jobId, number), Buffer.from(part.buffer).toString());
        await tx.query(
          'insert into user_import_parts (job_id, number, project_id, sealed) values ($1, $2, $3, $4)',
          [jobId, number, project.id, sealed],
          'user-import-part',
        );
      }
      await noteInProject(tx, project, {
        actor,
        action: 'end_user.import',
        targetType: 'job',
        targetId: jobId,
        after: { users: total },
      });
    },
  };
};

/** One statement: the users, their accounts and identities, the events, and what was done. */
const insertSql = `
  with given as materialized (
    select * from json_to_recordset($1::json) as g (id uuid, email text, verified boolean, hash text, user_meta jsonb,
      app_meta jsonb, created_at timestamptz, banned_until timestamptz)),
  u as (
    insert into auth.users (id, email, email_confirmed_at, raw_user_meta_data, raw_app_meta_data, banned_until, created_at)
    select id, email, case when verified then now() end, user_meta, app_meta, banned_until, coalesce(created_at, now())
    from given on conflict do nothing
    returning id, email, email_confirmed_at, raw_user_meta_data, raw_app_meta_data, is_anonymous, created_at, updated_at),
  made as materialized (
    select auth.put_account(u.id, decode(g.hash, 'hex'), 'email', u.id::text,
        json_build_object('sub', u.id, 'email', u.email, 'email_verified', u.email_confirmed_at is not null)::jsonb,
        u.email) as account,
      auth.emit('user.created', ${userEventSql}) as event
    from u join given g on g.id = u.id)
  select auth.note_import($2, $3, $4, count(*)::integer, ($5 - count(*))::integer, '[]', $6)
  from made`;

const noteFaultSql = `select auth.note_import($1, $2, $3, 0, 0, $4, '{}')`;

interface Part {
  readonly users: readonly ImportedUser[];
}

interface ImportRun {
  readonly deps: Pick<EndUserDeps, 'authDb' | 'sealer' | 'markDirty'>;
  readonly db: Queryable;
  readonly project: Administrator['project'];
  readonly jobId: string;
  readonly signal: AbortSignal;
  readonly progress: (percent: number) => void;
}

const rowOf = ({ deps, project }: ImportRun, user: ImportedUser): object => ({
  id: user.id,
  email: user.email,
  verified: user.isVerified,
  hash: user.passwordHash && sealHash(deps, project, user.id, user.passwordHash).toString('hex'),
  user_meta: user.userMetadata,
  app_meta: { ...user.appMetadata, ...appMetadataOf('email') },
  created_at: user.createdAt,
  banned_until: user.bannedUntil,
});

/** How many of these users have a hash of each cost. A hash of a user who is skipped is counted too: it is an estimate. */
const decoysOf = (users: readonly ImportedUser[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { passwordHash } of users) {
    const decoy = passwordHash === null ? undefined : parseForeignHash(passwordHash)?.decoy;
    if (decoy !== undefined) counts[decoy] = (counts[decoy] ?? 0) + 1;
  }
  return counts;
};

/** Keeps the first of users with one address, or one id; the others are skipped. */
const withoutRepeats = (users: readonly ImportedUser[]): readonly ImportedUser[] => {
  const seen = new Set<string>();
  return users.filter(({ id, email }) => {
    if (seen.has(id) || seen.has(email)) return false;
    seen.add(id).add(email);
    return true;
  });
};

const firstIndex = (users: readonly ImportedUser[]): number => users[0]?.index ?? 0;
const endIndex = (users: readonly ImportedUser[]): number => (users.at(-1)?.index ?? -1) + 1;

/** Whether a trigger or a limit of the project refused it: another try would end the same way. */
const isRefused = (error: unknown): error is AuthError | ServiceError =>
  error instanceof AuthError || (error instanceof ServiceError && error.status < 500);

/** Inserts users; those that the project's own database refuses are told apart by halves. */
const insertUsers = async (run: ImportRun, users: readonly ImportedUser[]): Promise<void> => {
  run.signal.throwIfAborted();
  const { deps, project, jobId } = run;
  const [from, to] = [firstIndex(users), endIndex(users)];
  try {
    const rows = JSON.stringify(withoutRepeats(users).map((user) => rowOf(run, user)));
    await deps.authDb.users(project.id, insertSql, [rows, jobId, from, to, users.length, decoysOf(users)]);
  } catch (error) {
    if (!isRefused(error) || error.code === 'plan_limit_exceeded') throw error;
    if (users.length === 1) {
      await deps.authDb.users(project.id, noteFaultSql, [
        jobId,
        from,
        to,
        JSON.stringify([{ index: from, code: error.code }]),
      ]);
      return;
    }
    const half = Math.ceil(users.length / 2);
    await insertUsers(run, users.slice(0, half));
    await insertUsers(run, users.slice(half));
  }
};

interface Done {
  readonly from_index: number;
  readonly to_index: number;
  readonly imported: number;
  readonly skipped: number;
  readonly errors: readonly ImportFault[];
}

const doneOf = ({ deps, project, jobId }: ImportRun): Promise<readonly Done[]> =>
  deps.authDb.secrets<Done>(
    project.id,
    'select from_index, to_index, imported, skipped, errors from auth.imports where job_id = $1',
    [jobId],
  );

/** By a count, since an import may be larger than what PostgreSQL estimates; up to a million users take 100 ms. */
const requireRoom = async ({ deps, project }: ImportRun, total: number): Promise<void> => {
  const max = maxUsersOf(project.plan);
  const [row] = await deps.authDb.secrets<{ users: number }>(
    project.id,
    'select count(*)::float8 as users from (select from auth.users limit $1) u',
    [max],
  );
  if ((row?.users ?? 0) + total <= max) return;
  throw new ServiceError('plan_limit_exceeded', `The plan of the project allows ${max} users.`);
};

const openPart = ({ deps, project, jobId }: ImportRun, number: number, sealed: Buffer): Part => ({
  users: JSON.parse(deps.sealer(project).open(aboutPart(jobId, number), sealed)) as ImportedUser[],
});

/** The counts of an import. `errors` are the first thousand users who could not be imported. */
export interface ImportResult {
  readonly imported: number;
  readonly skipped: number;
  readonly failed: number;
  readonly errors: readonly ImportFault[];
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, number) => all + number, 0);

/**
 * Imports the users of a job, part by part. Users whose address, or id, somebody has already are skipped.
 * @throws {ServiceError} `plan_limit_exceeded`; `dependency_unavailable` when another try may do
 */
export const importUsers = async (
  run: ImportRun,
  order: { readonly total: number; readonly failed: number; readonly faults: readonly ImportFault[] },
): Promise<ImportResult> => {
  const { deps, db, project, jobId } = run;
  const before = await doneOf(run);
  if (before.length === 0) await requireRoom(run, order.total - order.failed);
  const isDone = ({ index }: ImportedUser): boolean =>
    before.some(({ from_index: from, to_index: to }) => index >= from && index < to);
  const numbers = await db.query<{ number: number }>(
    'select number from user_import_parts where job_id = $1 order by number',
    [jobId],
  );
  for (const [position, { number }] of numbers.entries()) {
    const { sealed } = await one(
      db.query<{ sealed: Buffer }>('select sealed from user_import_parts where job_id = $1 and number = $2', [
        jobId,
        number,
      ]),
    );
    const users = openPart(run, number, sealed).users.filter((user) => !isDone(user));
    if (users.length > 0) await insertUsers(run, users);
    await db.query('delete from user_import_parts where job_id = $1 and number = $2', [jobId, number]);
    deps.markDirty(project.id);
    run.progress(Math.floor(((position + 1) / numbers.length) * 100));
  }
  const done = await doneOf(run);
  const errors = [...order.faults, ...done.flatMap((range) => range.errors)].toSorted((a, b) => a.index - b.index);
  return {
    imported: sum(done.map(({ imported }) => imported)),
    skipped: sum(done.map(({ skipped }) => skipped)),
    failed: order.failed + sum(done.map((range) => range.errors.length)),
    errors: errors.slice(0, maxListedFaults),
  };
};
