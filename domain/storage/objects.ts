import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { noBucket, noObject } from './errors.ts';
import { keyOf } from './names.ts';
import { type StorageCall, type StorageDeps, asPlatform } from './storage.ts';
import {
  type DeletedObject,
  type StoredObject,
  deleteObjects,
  findObject,
  findPublicObject,
  moveObject,
} from './store.ts';
import { type UploadMode, type Uploaded, checkUpload, commitUpload, requireUpload } from './upload.ts';

/** An object, by its bucket and name. */
export interface Place {
  readonly bucket: string;
  readonly name: string;
}

/** @throws {ServiceError} `not_found` when there is none that the caller may see */
export const requireObject = async (
  deps: StorageDeps,
  call: StorageCall,
  { bucket, name }: Place,
): Promise<StoredObject> => {
  const object = await findObject(deps, call, bucket, name);
  if (object === null) throw noObject();
  return object;
};

/**
 * A public object, or any other that the caller need not be asked about.
 * @throws {ServiceError} `not_found`
 */
export const requirePublic = async (deps: StorageDeps, call: StorageCall, place: Place): Promise<StoredObject> => {
  const object = await findPublicObject(deps, asPlatform(call), place.bucket, place.name);
  if (object === undefined) throw noBucket();
  if (object === null) throw noObject();
  return object;
};

/**
 * Gives an object another name, in another bucket too. Its bytes stay where they are.
 * @throws {ServiceError} `not_found`, `conflict` when there is one of that name, `forbidden`
 */
export const move = async (deps: StorageDeps, call: StorageCall, from: Place, to: Place): Promise<void> => {
  const object = await requireObject(deps, call, from);
  if (from.bucket !== to.bucket) {
    // The other bucket's limits hold for what is moved there.
    await checkUpload(deps, call, { bucket: to.bucket, mimeType: object.mime_type, declaredSize: object.size });
  }
  const ticket = { op: 'move', from_bucket: from.bucket, from_name: from.name, ...to } as const;
  if (!(await moveObject(deps, call, ticket)))
    throw new ServiceError('forbidden', 'No policy allows to move this object.');
  deps.markDirty(call.project.id);
};

/**
 * Copies an object: its bytes, then a row of the caller's.
 * @param to.version names the copy's bytes, for a copy that may be made again; left out: a new one
 * @throws {ServiceError} `not_found`, `conflict`, `forbidden`, `payload_too_large`, `plan_limit_exceeded`
 */
export const copy = async (
  deps: StorageDeps,
  call: StorageCall,
  from: Place,
  { version: given, ...to }: Place & { readonly mode: UploadMode; readonly version?: string },
): Promise<Uploaded> => {
  const object = await requireObject(deps, call, from);
  const request = {
    ...to,
    mimeType: object.mime_type,
    cacheControl: object.cache_control,
    userMetadata: object.user_metadata,
    declaredSize: object.size,
  };
  await checkUpload(deps, call, request);
  await requireUpload(deps, call, request);
  const { id: projectId } = call.project;
  const version = given ?? newId();
  // The object may have been replaced, and its old bytes be gone, since it was found.
  if (!(await deps.bytes.copy(keyOf(projectId, object.version), keyOf(projectId, version)))) throw noObject();
  return commitUpload(deps, call, request, {
    version,
    size: object.size,
    etag: object.etag,
    // Another run may have written a row with that version.
    keepsBytes: given !== undefined,
  });
};

/** Deletes what the caller may delete of these; answers what is gone. */
export const remove = async (
  deps: StorageDeps,
  call: StorageCall,
  bucket: string,
  names: readonly string[],
): Promise<readonly DeletedObject[]> => {
  const gone = await deleteObjects(deps, call, { bucket, names });
  if (gone.length === 0) return gone;
  deps.markDirty(call.project.id);
  deps.markRemoved(call.project.id);
  return gone;
};
