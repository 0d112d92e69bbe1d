import type { Locker } from '@tus/server';
import { z } from 'zod';
import { findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import type { StoredBytes } from '#lib/object-store/object-store.ts';
import { type RequestedUpload, type TusServer, createTusServer } from '#lib/resumable/tus-server.ts';
import { type ResumableUploads, type UploadInfo, uploadLifeMs } from '#lib/resumable/uploads.ts';
import { storageLimits } from './limits.ts';
import { keyOf, requireBucketName, requireName } from './names.ts';
import { parseMetadata } from './metadata.ts';
import { cacheControl, mediaType } from './serving.ts';
import { type StorageCall, type StorageDeps, asPlatform, ownerOf } from './storage.ts';
import { hasVersion } from './store.ts';
import { type Creator, creatorText, isUnfinished, release, reserve } from './unfinished.ts';
import { type UploadMode, checkUpload, commitUpload, requireUpload } from './upload.ts';

/** Resumable uploads (tus), behind the same policies and limits as all others. */

/** A request of tus: who calls, and whether an object that is there may be replaced. */
interface ResumableCall extends StorageCall {
  readonly creator: Creator;
  readonly mode: Extract<UploadMode, 'insert' | 'upsert'>;
}

export interface ResumableDeps {
  readonly storage: StorageDeps;
  readonly db: ControlDb;
  readonly uploads: ResumableUploads;
  readonly locks: Locker;
  readonly onFailure: (error: unknown) => void;
}

/** As an upload began: who did it, and what its row will need. */
const contextSchema = z.object({
  projectId: z.string(),
  /** Empty: nobody goes on with it, since it began before this was recorded. */
  creator: z.string().default(''),
  /** As whom policies were asked: a member may look through the eyes of others. */
  role: z.enum(['service', 'anon', 'authenticated']),
  owner: z.string().nullable().default(null),
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

const isSameCaller = (context: Context, call: ResumableCall): boolean =>
  context.projectId === call.project.id &&
  context.creator === creatorText(call.creator) &&
  context.role === call.caller.role &&
  context.owner === ownerOf(call).owner;

const contextOf = ({ context }: UploadInfo): Context => contextSchema.parse(context);

/**
 * A lost answer makes the end come again: the row is there then, and nothing is to be done. Policies are asked by the
 * claims that its caller has now: what the user might do when the upload began may be over.
 */
const finish = async (
  { storage, db }: ResumableDeps,
  upload: UploadInfo,
  { size, sha256: etag, caller: { caller } }: StoredBytes & { readonly caller: ResumableCall },
): Promise<void> => {
  const { projectId, creator: _creator, role: _role, owner: _owner, ...request } = contextOf(upload);
  const project = await findProject(db, projectId);
  if (project === undefined || project.deleted_at !== null) throw notFound('project');
  const signal = new AbortController().signal;
  const call: StorageCall = { project, signal, caller };
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

export interface Resumable extends Omit<TusServer<ResumableCall>, 'cancel'> {
  /**
   * Ends an upload of a project, whoever began it.
   * @throws {ServiceError} `not_found`, `conflict` when a request that works on it does not stop
   */
  readonly cancel: (projectId: string, id: string) => Promise<void>;
}

const createServer = (deps: ResumableDeps): TusServer<ResumableCall> => {
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
      const { project, creator, caller } = call;
      const { declaredSize: _size, ...kept } = request;
      await reserve(db, storage.config, { project, creator, role: caller.role, upload, ...kept });
      const context: Context = {
        projectId: project.id,
        creator: creatorText(creator),
        role: caller.role,
        owner: ownerOf(call).owner,
        ...kept,
      };
      return { key: keyOf(project.id, upload.id), context };
    },
    authorize: (call, upload) => {
      if (!isSameCaller(contextOf(upload), call)) throw notFound('upload');
    },
    onFinished: (upload, stored) => finish(deps, upload, stored),
    onRemoved: ({ id }) => release(db, id),
  });
};

export const createResumable = (deps: ResumableDeps): Resumable => {
  const server = createServer(deps);
  return {
    ...server,
    cancel: async (projectId, id) => {
      if (!(await isUnfinished(deps.db, projectId, id))) throw notFound('upload');
      await server.cancel(id);
      await release(deps.db, id);
    },
  };
};
