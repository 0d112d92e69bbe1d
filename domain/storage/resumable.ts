import type { Locker } from '@tus/server';
import { z } from 'zod';
import type { Project } from '#domain/projects/store.ts';
import { findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type RequestedUpload, type TusServer, createTusServer } from '#lib/resumable/tus-server.ts';
import { type ResumableUploads, type UploadInfo, uploadLifeMs } from '#lib/resumable/uploads.ts';
import { storageLimits } from './limits.ts';
import { keyOf, requireBucketName, requireName } from './names.ts';
import { parseMetadata } from './metadata.ts';
import { cacheControl, mediaType } from './serving.ts';
import { type StorageCall, type StorageDeps, asPlatform, ownerOf } from './storage.ts';
import { hasVersion } from './store.ts';
import { type UploadMode, checkUpload, commitUpload, requireUpload } from './upload.ts';

/** Resumable uploads (tus), behind the same policies and limits as all others. */

/** A request of tus: who calls, and whether an object that is there may be replaced. */
export interface ResumableCall extends StorageCall {
  readonly mode: Extract<UploadMode, 'insert' | 'upsert'>;
}

export interface ResumableDeps {
  readonly storage: StorageDeps;
  readonly db: ControlDb;
  readonly uploads: ResumableUploads;
  readonly locks: Locker;
  readonly onFailure: (error: unknown) => void;
}

/** As an upload began: what its row will need, and as whom it is written. */
const contextSchema = z.object({
  projectId: z.string(),
  role: z.enum(['service', 'anon', 'authenticated']),
  claims: z.string(),
  bucket: z.string(),
  name: z.string(),
  mode: z.enum(['insert', 'upsert']),
  mimeType: z.string(),
  cacheControl: z.string(),
  userMetadata: z.record(z.string(), z.unknown()),
});
type Context = z.output<typeof contextSchema>;

const requestOf = ({ metadata, size }: RequestedUpload, mode: ResumableCall['mode']) => ({
  bucket: requireBucketName(metadata['bucketName'] ?? '', 'bucketName'),
  name: requireName(metadata['objectName'] ?? '', 'objectName'),
  mode,
  mimeType: mediaType(metadata['contentType'] ?? ''),
  cacheControl: cacheControl(metadata['cacheControl'] ?? '3600'),
  userMetadata: parseMetadata('metadata', metadata['metadata'] ?? ''),
  declaredSize: size,
});

/** Half-finished uploads of a project; a day later they are gone. */
const maxUnfinished = 1000;

const tooMuch = (what: string, details: unknown): ServiceError =>
  new ServiceError('plan_limit_exceeded', `Too ${what} of resumable uploads that have not ended.`, {
    details,
    hint: 'Finish or end some of them; after a day they are deleted.',
  });

/** Their bytes lie there before any row counts them: all together they may have what the plan allows. */
const reserve = async (db: ControlDb, project: Project, total: number | null, { id, size }: RequestedUpload) => {
  await db.transaction(async (tx) => {
    await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 7245034))', [project.id]);
    const [held] = await tx.query<{ count: number; bytes: number }>(
      `select count(*)::int as count, coalesce(sum(size), 0)::float8 as bytes from storage_uploads
       where project_id = $1 and expires_at > now()`,
      [project.id],
    );
    if ((held?.count ?? 0) >= maxUnfinished) throw tooMuch('many', { limit: maxUnfinished });
    const bytes = (held?.bytes ?? 0) + size;
    if (total !== null && bytes > total) throw tooMuch('many bytes', { limit: total, value: bytes });
    await tx.query(
      `insert into storage_uploads (id, project_id, size, expires_at)
       values ($1, $2, $3, now() + make_interval(secs => $4))`,
      [id, project.id, size, uploadLifeMs / 1000],
    );
  });
};

const release = async (db: ControlDb, id: string): Promise<void> => {
  await db.query(`delete from storage_uploads where id = $1 or expires_at < now() - interval '1 day'`, [id]);
};

const isSameCaller = (context: Context, { project, caller }: StorageCall): boolean =>
  context.projectId === project.id &&
  context.role === caller.role &&
  ownerOf({ caller: { ...caller, claims: context.claims } }).owner === ownerOf({ caller }).owner;

const contextOf = ({ context }: UploadInfo): Context => contextSchema.parse(context);

/** A lost answer makes the end come again: the row is there then, and nothing is to be done. */
const finish = async (
  { storage, db }: ResumableDeps,
  upload: UploadInfo,
  { size, sha256: etag }: { readonly size: number; readonly sha256: string },
): Promise<void> => {
  const { projectId, role, claims, ...request } = contextOf(upload);
  const project = await findProject(db, projectId);
  if (project === undefined || project.deleted_at !== null) throw notFound('project');
  const signal = new AbortController().signal;
  const call: StorageCall = { project, signal, caller: { projectId, role, claims } };
  if (!(await hasVersion(storage, asPlatform(call), upload.id))) {
    // The end may come long after a refusal, when the sweep has deleted the bytes.
    const bytes = await storage.bytes.read(upload.key, { range: { start: 0, end: 0 }, signal });
    if (bytes === null) throw new ServiceError('expired', 'The bytes of this upload are gone. Begin it anew.');
    bytes.destroy();
    await checkUpload(storage, call, { ...request, declaredSize: size });
    const content = { version: upload.id, size, etag, keepsBytes: true };
    await commitUpload(storage, call, { ...request, declaredSize: size }, content);
  }
  await release(db, upload.id);
};

export const createResumable = (deps: ResumableDeps): TusServer<ResumableCall> => {
  const { storage, db, uploads, locks, onFailure } = deps;
  return createTusServer<ResumableCall>({
    uploads,
    locks,
    onFailure,
    lifeMs: uploadLifeMs,
    maxSize: ({ project }) => storageLimits(storage.config, project.plan).file,
    beforeCreate: async (call, upload) => {
      const request = requestOf(upload, call.mode);
      await checkUpload(storage, call, request);
      await requireUpload(storage, call, request);
      await reserve(db, call.project, storageLimits(storage.config, call.project.plan).total, upload);
      const { declaredSize: _size, ...kept } = request;
      const { role, claims } = call.caller;
      const context: Context = { projectId: call.project.id, role, claims, ...kept };
      return { key: keyOf(call.project.id, upload.id), context };
    },
    authorize: (call, upload) => {
      if (!isSameCaller(contextOf(upload), call)) throw notFound('upload');
    },
    onFinished: (upload, stored) => finish(deps, upload, stored),
    onRemoved: ({ id }) => release(db, id),
  });
};
