import { ServiceError } from '#lib/errors.ts';
import { noBucket } from './errors.ts';
import { fileLimit, maxBuckets } from './limits.ts';
import { type StorageCall, type StorageDeps, ownerOf } from './storage.ts';
import { type Bucket, deleteBucket, deleteSome, findBucket, insertBucket, updateBucket } from './store.ts';

export interface BucketSettings {
  readonly public: boolean;
  /** Bytes; null: the plan's limit. */
  readonly file_size_limit: number | null;
  readonly allowed_mime_types: readonly string[] | null;
}

/** @throws {ServiceError} `not_found` when there is none that the caller may see */
export const requireBucket = async (deps: StorageDeps, call: StorageCall, id: string): Promise<Bucket> => {
  const bucket = await findBucket(deps, call, id);
  if (bucket === null) throw noBucket();
  return bucket;
};

const requireLimit = (
  { config }: StorageDeps,
  { project }: StorageCall,
  { file_size_limit: wanted }: BucketSettings,
) => {
  const { bytes, setBy } = fileLimit(config, project.plan, null);
  if (wanted === null || wanted <= bytes) return;
  throw new ServiceError('plan_limit_exceeded', `A file may have at most ${bytes} bytes on this plan.`, {
    details: { limit: bytes, value: wanted, set_by: setBy },
    hint: `Operators set the limit with ${setBy}.`,
  });
};

const ticketOf = (call: StorageCall, bucket: string, settings: BucketSettings) =>
  ({ op: 'bucket', bucket, ...settings, max_buckets: maxBuckets, ...ownerOf(call) }) as const;

/** @throws {ServiceError} `conflict`, `forbidden`, `plan_limit_exceeded` */
export const createBucket = async (
  deps: StorageDeps,
  call: StorageCall,
  id: string,
  settings: BucketSettings,
): Promise<void> => {
  requireLimit(deps, call, settings);
  await insertBucket(deps, call, ticketOf(call, id, settings));
};

/** @throws {ServiceError} `not_found` when there is none that the caller may change, `plan_limit_exceeded` */
export const changeBucket = async (
  deps: StorageDeps,
  call: StorageCall,
  id: string,
  change: Partial<BucketSettings>,
): Promise<void> => {
  const bucket = await requireBucket(deps, call, id);
  const settings = {
    public: change.public ?? bucket.public,
    file_size_limit: change.file_size_limit === undefined ? bucket.file_size_limit : change.file_size_limit,
    allowed_mime_types: change.allowed_mime_types === undefined ? bucket.allowed_mime_types : change.allowed_mime_types,
  };
  requireLimit(deps, call, settings);
  if (!(await updateBucket(deps, call, ticketOf(call, id, settings)))) throw noBucket();
};

/** @throws {ServiceError} `not_found`, `conflict` when it is not empty */
export const removeBucket = async (deps: StorageDeps, call: StorageCall, id: string): Promise<void> => {
  await requireBucket(deps, call, id);
  if (!(await deleteBucket(deps, call, id))) throw noBucket();
};

const atOnce = 1000;

/** Deletes all objects of a bucket that the caller may delete, some at a time. */
export const emptyBucket = async (deps: StorageDeps, call: StorageCall, id: string): Promise<void> => {
  await requireBucket(deps, call, id);
  let deleted = atOnce;
  while (deleted > 0 && !call.signal.aborted) {
    deleted = await deleteSome(deps, call, id, atOnce);
    deps.markDirty(call.project.id);
  }
  deps.markRemoved(call.project.id);
};
