import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Jobs } from '#domain/jobs/jobs.ts';
import { type Project, findProject } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, isErrorCode } from '#lib/errors.ts';
import type { ListedObject, ObjectStore } from '#lib/object-store/object-store.ts';
import { storageRender } from '#queues/storage-render.ts';
import { type StorageConfig, maxFilesBeside, storageLimits } from './limits.ts';
import { keyOf } from './names.ts';
import { type PictureOptions, parsePictureOptions, pictureOptionsText } from './pictures/options.ts';
import { maxPictureBytes, renderPicture } from './pictures/render.ts';
import type { StoredObject } from './store.ts';

/** Pictures made of objects. They are kept beside the objects, and made anew when they are gone. */

const prefixOf = (projectId: string, version = ''): string =>
  version === '' ? `pictures/${projectId}/` : `pictures/${projectId}/${version}/`;

const nameOf = (options: PictureOptions): string =>
  createHash('sha256').update(pictureOptionsText(options)).digest('hex').slice(0, 32);

/** The type stands in the key: it is known without a row. */
const typeOf = (key: string): string => `image/${key.slice(key.lastIndexOf('-') + 1)}`;

/** More of one object are not kept: strangers choose the options where the bucket is public. */
const maxOfObject = 100;
const keptDays = 7;
/** All pictures of a project may have this part of what its plan allows for files, which they do not count for. */
const shareOfFiles = 4;
/** A picture is kept for at least so long, so that the call that had it made can still read it. */
const leastKeptMs = 60_000;

const findKept = async (bytes: ObjectStore, prefix: string): Promise<ListedObject | undefined> => {
  for await (const found of bytes.list(prefix)) return found;
  return undefined;
};

const keysBelow = async (bytes: ObjectStore, prefix: string): Promise<string[]> => {
  const keys: string[] = [];
  for await (const { key } of bytes.list(prefix)) keys.push(key);
  return keys;
};

/** Adds to what pictures of the project were written since they were last emptied. @returns all of it, in bytes */
const countPicture = async (db: Queryable, projectId: string, size: number): Promise<number> => {
  const [row] = await db.query<{ bytes: number }>(
    `insert into storage_renditions as r (project_id, bytes) values ($1, $2)
     on conflict (project_id) do update set bytes = r.bytes + excluded.bytes returning bytes::float8 as bytes`,
    [projectId, size],
  );
  return row?.bytes ?? 0;
};

interface PictureStore {
  readonly bytes: ObjectStore;
  readonly db: Queryable;
  readonly config: StorageConfig;
}

/** Pictures are made anew when they are gone: when they take too much, all go but the newest. */
const makeRoom = async ({ bytes, db, config }: PictureStore, { id, plan }: Project, size: number): Promise<void> => {
  const { file, total } = storageLimits(config, plan);
  const most = (total ?? maxFilesBeside * file) / shareOfFiles;
  if ((await countPicture(db, id, size)) <= most) return;
  await sweepRenditions(bytes, id, Date.now() - leastKeptMs);
  await db.query('update storage_renditions set bytes = $2 where project_id = $1', [id, size]);
};

/**
 * Makes a picture in a worker.
 * @throws {ServiceError} when the file is no picture, or beyond the bounds
 */
export const makeRendition = async (
  store: PictureStore,
  {
    projectId,
    version,
    signal,
  }: { readonly projectId: string; readonly version: string; readonly signal: AbortSignal },
  given: Readonly<Record<string, string | number>>,
): Promise<{ readonly key: string; readonly size: number }> => {
  const { bytes, db } = store;
  const options = parsePictureOptions(given);
  const original = await bytes.read(keyOf(projectId, version), { range: { start: 0, end: maxPictureBytes }, signal });
  const project = await findProject(db, projectId);
  if (original === null || project === undefined) throw new ServiceError('not_found', 'No such object.');
  const picture = await renderPicture(await buffer(original), options);
  const prefix = prefixOf(projectId, version);
  const kept = await keysBelow(bytes, prefix);
  if (kept.length >= maxOfObject) await bytes.remove(kept);
  await makeRoom(store, project, picture.bytes.length);
  const key = `${prefix}${nameOf(options)}-${picture.mimeType.slice('image/'.length)}`;
  const { size } = await bytes.write(key, Readable.from([picture.bytes]), {
    maxBytes: picture.bytes.length,
    size: picture.bytes.length,
    signal,
  });
  return { key, size };
};

const waitMs = 30_000;

export interface RenditionDeps {
  readonly bytes: ObjectStore;
  readonly jobs: Pick<Jobs, 'run'>;
}

const refusedBy = ({ code, message }: { readonly code: string; readonly message: string }): ServiceError =>
  new ServiceError(isErrorCode(code) ? code : 'resource_limit', message);

const notInTime = (): ServiceError =>
  new ServiceError('overloaded', 'The picture could not be made in time. Try again shortly.', {
    headers: { 'Retry-After': '2' },
  });

interface Rendition {
  readonly key: string;
  readonly size: number;
}

/** A picture of an object: one that is kept, or one that a job makes now, within its project's share of the pool. */
const renditionOf = async (
  { bytes, jobs }: RenditionDeps,
  { projectId, requestId }: { readonly projectId: string; readonly requestId: string },
  { version, size }: StoredObject,
  options: PictureOptions,
): Promise<Rendition> => {
  const kept = await findKept(bytes, `${prefixOf(projectId, version)}${nameOf(options)}`);
  if (kept !== undefined) return kept;
  if (size > maxPictureBytes) {
    throw new ServiceError('payload_too_large', `A picture of more than ${maxPictureBytes} bytes is not transformed.`);
  }
  const data = { version, options: Object.fromEntries(Object.entries(options)) };
  const { outcome } = await jobs.run({ job: storageRender, projectId, requestId, data }, waitMs);
  if (outcome === null) throw notInTime();
  if (outcome.result !== null) return storageRender.result.parse(JSON.parse(outcome.result));
  throw refusedBy(outcome.error ?? { code: 'resource_limit', message: 'The picture could not be made.' });
};

/**
 * The picture of an object, as an object that can be sent.
 * @throws {ServiceError} `validation_failed`, `unsupported_media_type`, `payload_too_large`, `overloaded`, `queue_full`
 */
export const pictureOf = async (
  deps: RenditionDeps,
  of: { readonly projectId: string; readonly requestId: string },
  object: StoredObject,
  given: Readonly<Record<string, unknown>>,
): Promise<{ readonly key: string; readonly object: StoredObject }> => {
  const options = parsePictureOptions(given);
  const { key, size } = await renditionOf(deps, of, object, options);
  const etag = createHash('sha256')
    .update(`${object.etag} ${pictureOptionsText(options)}`)
    .digest('hex');
  return { key, object: { ...object, size, etag, mime_type: typeOf(key) } };
};

/** Deletes pictures of a project that are older than that. @returns how many there were */
export const sweepRenditions = async (
  bytes: ObjectStore,
  projectId: string,
  before = Date.now() - keptDays * 86_400_000,
): Promise<number> => {
  let removed = 0;
  let batch: string[] = [];
  for await (const { key, modifiedAt } of bytes.list(prefixOf(projectId))) {
    if (modifiedAt.getTime() < before) batch.push(key);
    if (batch.length < 1000) continue;
    removed += batch.length;
    await bytes.remove(batch);
    batch = [];
  }
  await bytes.remove(batch);
  return removed + batch.length;
};
