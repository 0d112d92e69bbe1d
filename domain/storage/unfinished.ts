import type { Project } from '#domain/projects/store.ts';
import type { DataRole } from '#domain/data-api/data-api.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { RequestedUpload } from '#lib/resumable/tus-server.ts';
import { uploadLifeMs } from '#lib/resumable/uploads.ts';
import { type StorageConfig, maxFilesBeside, storageLimits } from './limits.ts';
import type { Place } from './objects.ts';

/** The resumable uploads of a project that have not ended: who began them, and how many there may be. */

const creatorKinds = ['user', 'end_user', 'key'] as const;

/** A member of the project, a user of its application, or an API key that came without one. */
export interface Creator {
  readonly kind: (typeof creatorKinds)[number];
  readonly id: string;
}

/** As rows and files have it. */
export const creatorText = ({ kind, id }: Creator): string => `${kind}:${id}`;

const creatorOf = (text: string): Creator | null => {
  const kind = creatorKinds.find((kind) => text.startsWith(`${kind}:`));
  return kind === undefined ? null : { kind, id: text.slice(kind.length + 1) };
};

interface Bounds {
  readonly count: number;
  readonly bytes: number;
}

/** A day later they are gone. */
const maxOfProject = 1000;

/**
 * Their bytes lie there before any row counts them: all together they may have what the plan allows. One user or visitor
 * of the application leaves room for the others; members and secret keys have all files of the project in any case.
 */
const boundsOf = (config: StorageConfig, { plan }: Pick<Project, 'plan'>, role: DataRole) => {
  const { file, total } = storageLimits(config, plan);
  const project: Bounds = { count: maxOfProject, bytes: total ?? maxFilesBeside * file };
  const creator: Bounds =
    role === 'service'
      ? { count: maxOfProject / 2, bytes: project.bytes }
      : { count: maxOfProject / 10, bytes: Math.max(file, project.bytes / 4) };
  return { project, creator };
};

const tooMuch = (what: string, details: unknown): ServiceError =>
  new ServiceError('plan_limit_exceeded', `Too ${what} of resumable uploads that have not ended.`, {
    details,
    hint: 'Finish or end some of them; after a day they are deleted.',
  });

/** @throws {ServiceError} `plan_limit_exceeded` when one more is beyond the bounds */
const requireRoom = (held: Bounds, size: number, { count, bytes }: Bounds, of: 'project' | 'creator'): void => {
  if (held.count >= count) throw tooMuch('many', { of, limit: count, value: held.count });
  if (held.bytes + size > bytes) throw tooMuch('many bytes', { of, limit: bytes, value: held.bytes + size });
};

interface Held {
  readonly count: number;
  readonly bytes: number;
  readonly own_count: number;
  readonly own_bytes: number;
}

interface Reservation extends Place {
  readonly project: Pick<Project, 'id' | 'plan'>;
  readonly role: DataRole;
  readonly creator: Creator;
  readonly upload: Pick<RequestedUpload, 'id' | 'size'>;
}

/** Writes the row of an upload that begins. @throws {ServiceError} `plan_limit_exceeded` */
export const reserve = async (
  db: ControlDb,
  config: StorageConfig,
  { project, role, creator, upload: { id, size }, bucket, name }: Reservation,
): Promise<void> => {
  const bounds = boundsOf(config, project, role);
  const by = creatorText(creator);
  await db.transaction(async (tx) => {
    await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 7245034))', [project.id]);
    const [held] = await tx.query<Held>(
      `select count(*)::int as count, coalesce(sum(size), 0)::float8 as bytes,
         (count(*) filter (where creator = $2))::int as own_count,
         coalesce(sum(size) filter (where creator = $2), 0)::float8 as own_bytes
       from storage_uploads where project_id = $1 and expires_at > now()`,
      [project.id, by],
    );
    const { count = 0, bytes = 0, own_count: ownCount = 0, own_bytes: ownBytes = 0 } = held ?? {};
    requireRoom({ count: ownCount, bytes: ownBytes }, size, bounds.creator, 'creator');
    requireRoom({ count, bytes }, size, bounds.project, 'project');
    await tx.query(
      `insert into storage_uploads (id, project_id, size, expires_at, creator, bucket_id, name)
       values ($1, $2, $3, now() + make_interval(secs => $4), $5, $6, $7)`,
      [id, project.id, size, uploadLifeMs / 1000, by, bucket, name],
    );
  });
};

/** An upload has ended, however it did. */
export const release = async (db: Queryable, id: string): Promise<void> => {
  await db.query(`delete from storage_uploads where id = $1 or expires_at < now() - interval '1 day'`, [id]);
};

/** A resumable upload that has not ended, as its project sees it. */
interface UnfinishedUpload extends Place {
  readonly id: string;
  readonly size: number;
  /** Null: it began before creators were recorded. */
  readonly creator: Creator | null;
  readonly created_at: Date;
  readonly expires_at: Date;
}

type UploadRow = Omit<UnfinishedUpload, 'creator'> & { readonly creator: string };

/** The uploads of a project that have not ended, newest first, and how many there are. */
export const unfinishedUploads = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly uploads: UnfinishedUpload[]; readonly total: number }> => {
  const rows = await db.query<UploadRow>(
    `select id, bucket_id as bucket, name, size::float8 as size, creator, created_at, expires_at
     from storage_uploads where project_id = $1 and expires_at > now()
     order by created_at desc, id limit $2 offset $3`,
    [projectId, limit, offset],
  );
  const [all] = await db.query<{ total: number }>(
    'select count(*)::int as total from storage_uploads where project_id = $1 and expires_at > now()',
    [projectId],
  );
  const uploads = rows.map(({ creator, ...row }) => ({ ...row, creator: creatorOf(creator) }));
  return { uploads, total: all?.total ?? 0 };
};

/** Whether the project has that upload, and it has not ended. */
export const isUnfinished = async (db: Queryable, projectId: string, id: string): Promise<boolean> =>
  (await db.query('select from storage_uploads where id = $1 and project_id = $2', [id, projectId])).length > 0;
