import { createHash } from 'node:crypto';
import { ServiceError, notFound } from '#lib/errors.ts';
import type { JobData } from '#queues/define.ts';
import type { storageTransfer } from '#queues/storage-transfer.ts';
import { requireBucket } from './buckets.ts';
import { endOf, folderOf } from './list.ts';
import { maxNameBytes, requireName } from './names.ts';
import { copy } from './objects.ts';
import { type StorageCall, type StorageDeps, asPlatform } from './storage.ts';
import { type MoveTicket, moveObjects, read } from './store.ts';
import { checkUpload } from './upload.ts';

/*
 * Moves and copies of folders, by a job. Every file is moved or copied as a call for it alone would: policies, limits
 * and events are the same. A run that was killed is begun again: what it has moved is gone from the folder, and its
 * copies have versions that follow from the job, so that it knows them.
 */

type Transfer = JobData<typeof storageTransfer>;
/** The folders of a transfer, and whether it moves or copies. */
export type TransferPlaces = Pick<Transfer, 'op' | 'from' | 'to'>;

/** Files of one transfer; a copy of as many takes some minutes. */
const maxFiles = 100_000;
const maxNamed = 10;
const batch = 50;
const copiesAtOnce = 4;

/** The files that a transfer would take, and those whose new name is taken. */
export interface TransferPlan {
  readonly files: number;
  readonly bytes: number;
  /** Files whose new name is taken. */
  readonly collisions: number;
  /** The first of them, as they are called at the destination. */
  readonly names: readonly string[];
}

const invalid = (message: string, hint?: string): ServiceError =>
  new ServiceError('invalid_key', message, hint === undefined ? {} : { hint });

const requireFolder = (name: string, field: string): void => {
  if (name !== '') requireName(name, field);
};

/** A folder within itself would grow while it is copied, and would have no place to be moved to. */
const requireApart = ({ from, to }: TransferPlaces): void => {
  if (from.bucket !== to.bucket) return;
  if (folderOf(from.name) === folderOf(to.name)) throw invalid('The folder is there already.');
  if (folderOf(to.name).startsWith(folderOf(from.name))) throw invalid('A folder cannot be put into itself.');
};

const planSql = `
  with files as materialized (
    select o.name, o.size, $5 || substr(o.name, length($2) + 1) as new_name
    from only storage.objects o where o.bucket_id = $1 and o.name >= $2 and o.name < $3 order by o.name
    limit ${maxFiles + 1}),
  taken as materialized (
    select f.new_name from files f join only storage.objects d on d.bucket_id = $4 and d.name = f.new_name)
  select json_build_object('files', (select count(*) from files),
    'bytes', (select coalesce(sum(size), 0)::float8 from files),
    'longest', (select coalesce(max(octet_length(new_name)), 0) from files),
    'collisions', (select count(*) from taken),
    'names', (select coalesce(json_agg(new_name), '[]') from (select new_name from taken order by 1 limit ${maxNamed}) n))::text`;

/**
 * Checks a transfer, and says what it would do as far as the caller may see it.
 * @throws {ServiceError} `not_found`, `invalid_key`, `payload_too_large`
 */
export const planTransfer = async (
  deps: StorageDeps,
  call: StorageCall,
  places: TransferPlaces,
): Promise<TransferPlan> => {
  const { from, to } = places;
  requireFolder(from.name, 'folder');
  requireFolder(to.name, 'to_folder');
  requireApart(places);
  for (const bucket of new Set([from.bucket, to.bucket])) await requireBucket(deps, asPlatform(call), bucket);
  const [source, target] = [folderOf(from.name), folderOf(to.name)];
  const [row] = await read(deps, call, planSql, [from.bucket, source, endOf(source), to.bucket, target]);
  const { longest, ...plan } = JSON.parse(row ?? '{}') as TransferPlan & { readonly longest: number };
  if (plan.files === 0) throw notFound('folder');
  if (plan.files > maxFiles)
    throw new ServiceError('payload_too_large', `A folder of more than ${maxFiles} files goes folder by folder.`);
  if (longest > maxNameBytes)
    throw invalid(`A file would have a name of ${longest} bytes; ${maxNameBytes} are allowed.`);
  return plan;
};

interface Source {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly size: number;
  readonly mime_type: string;
}

/** A file, and where it goes. */
interface Item extends Source {
  readonly newName: string;
  /** The content that is there; null: none. */
  readonly taken: string | null;
}

const sourcesSql = `
  select coalesce(json_agg(json_build_object('id', o.id, 'name', o.name, 'version', o.version, 'size', o.size,
    'mime_type', o.mime_type, 'newName', o.new_name, 'taken', d.version) order by o.name), '[]')::text
  from (select o.*, $5 || substr(o.name, length($6) + 1) as new_name from only storage.objects o
    where o.bucket_id = $1 and o.name > $2 and o.name < $3 order by o.name limit ${batch}) o
  left join only storage.objects d on d.bucket_id = $4 and d.name = o.new_name`;

const readItems = async (
  deps: StorageDeps,
  call: StorageCall,
  { from, to }: TransferPlaces,
  after: string,
): Promise<readonly Item[]> => {
  const [source, target] = [folderOf(from.name), folderOf(to.name)];
  const [row] = await read(deps, call, sourcesSql, [from.bucket, after, endOf(source), to.bucket, target, source]);
  return JSON.parse(row ?? '[]') as Item[];
};

/** The version of a copy: the same in each run of a job, so that a run knows what an earlier one has made. */
const versionOf = (jobId: string, { id, version }: Source): string => {
  const hex = createHash('sha256').update(`${jobId} ${id} ${version}`).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  );
};

const taken = ({ newName }: Item): ServiceError =>
  new ServiceError('conflict', `There is a file ${newName} at the destination by now.`);

/** One run of a transfer. */
interface Run {
  readonly deps: StorageDeps;
  readonly call: StorageCall;
  readonly jobId: string;
  readonly transfer: Transfer;
}

interface Counts {
  readonly done: number;
  readonly skipped: number;
}

/** The files of a batch that go, by what shall happen to those whose new name is taken. */
const going = ({ transfer: { on_collision: rule } }: Run, items: readonly Item[]): readonly Item[] => {
  const first = items.find((item) => item.taken !== null);
  if (first !== undefined && rule === 'fail') throw taken(first);
  return rule === 'skip' ? items.filter((item) => item.taken === null) : items;
};

const moveTicketOf = ({ from, to }: TransferPlaces, { name, newName }: Item): MoveTicket => ({
  op: 'move',
  from_bucket: from.bucket,
  from_name: name,
  bucket: to.bucket,
  name: newName,
});

const moveBatch = async (run: Run, items: readonly Item[]): Promise<Counts> => {
  const { deps, call, transfer } = run;
  const wanted = going(run, items);
  if (transfer.from.bucket !== transfer.to.bucket) {
    // The other bucket's limits hold for what is moved there.
    for (const { mime_type: mimeType, size: declaredSize } of wanted)
      await checkUpload(deps, call, { bucket: transfer.to.bucket, mimeType, declaredSize });
  }
  const tickets = wanted.map((item) => ({ ticket: moveTicketOf(transfer, item), replaces: item.taken !== null }));
  const done = await moveObjects(deps, call, tickets);
  if (wanted.some((item) => item.taken !== null)) deps.markRemoved(call.project.id);
  deps.markDirty(call.project.id);
  return { done, skipped: items.length - done };
};

const copyOne = async ({ deps, call, jobId, transfer: { from, to, on_collision: rule } }: Run, item: Item) => {
  const version = versionOf(jobId, item);
  const mode = rule === 'replace' ? 'upsert' : 'insert';
  try {
    await copy(
      deps,
      call,
      { bucket: from.bucket, name: item.name },
      { bucket: to.bucket, name: item.newName, mode, version },
    );
    return true;
  } catch (error) {
    // It was deleted, or another one has come, since the batch was read.
    const isGone = error instanceof ServiceError && error.code === 'not_found';
    const isTaken = rule === 'skip' && error instanceof ServiceError && error.code === 'conflict';
    if (isGone || isTaken) return false;
    throw error;
  }
};

const copyBatch = async (run: Run, items: readonly Item[]): Promise<Counts> => {
  const isMine = (item: Item): boolean => item.taken === versionOf(run.jobId, item);
  const own = items.filter(isMine).length;
  const queue = [
    ...going(
      run,
      items.filter((item) => !isMine(item)),
    ),
  ];
  let made = 0;
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) if (await copyOne(run, item)) made += 1;
  };
  const ended = await Promise.allSettled(Array.from({ length: copiesAtOnce }, worker));
  const failure = ended.find((one) => one.status === 'rejected');
  if (failure) throw failure.reason;
  return { done: own + made, skipped: items.length - own - made };
};

/** A refusal in the middle says how far it came: what was done stays done. */
const withCounts = (error: unknown, { op }: Transfer, done: number): unknown => {
  if (!(error instanceof ServiceError) || error.status >= 500 || done === 0) return error;
  const { message, details, hint } = error;
  const words = `${done} ${done === 1 ? 'file is' : 'files are'} ${op === 'move' ? 'moved' : 'copied'} already. ${message}`;
  return new ServiceError(error.code, words, { details, ...(hint !== null && { hint }) });
};

interface RunContext {
  /** 1 for the first run. */
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** @param percent 0 to 100 */
  readonly progress: (percent: number) => void;
}

/** The counts of all runs of a transfer: files that an earlier run has moved do not lie in the folder any more. */
const allCounts = ({ op, files }: Transfer, { done, skipped }: Counts, attempt: number): Counts =>
  op === 'move' && attempt > 1 ? { done: Math.max(done, files - skipped), skipped } : { done, skipped };

/**
 * Carries out a transfer from its first file to its last. Files that come into the folder meanwhile may stay.
 * @throws {ServiceError} as `planTransfer`, `move` and `copy`
 */
export const runTransfer = async (
  { deps, call, jobId, transfer }: Run,
  { attempt, signal, progress }: RunContext,
): Promise<Counts> => {
  const run = { deps, call, jobId, transfer };
  const isMove = transfer.op === 'move';
  // A run before this one may have moved all files.
  const total = await planTransfer(deps, call, transfer).then(
    ({ files }) => files,
    (error: unknown) => {
      if (isMove && error instanceof ServiceError && error.code === 'not_found') return 0;
      throw error;
    },
  );
  let [done, skipped, after] = [0, 0, folderOf(transfer.from.name)];
  try {
    for (;;) {
      signal.throwIfAborted();
      const items = await readItems(deps, call, transfer, after);
      const last = items.at(-1);
      if (last === undefined) return allCounts(transfer, { done, skipped }, attempt);
      const counts = isMove ? await moveBatch(run, items) : await copyBatch(run, items);
      done += counts.done;
      skipped += counts.skipped;
      after = last.name;
      progress(Math.min(100, ((done + skipped) / Math.max(1, total)) * 100));
    }
  } catch (error) {
    throw withCounts(error, transfer, done);
  }
};

/**
 * The job of a transfer that a caller asks for.
 * @throws {ServiceError} as `planTransfer`; `conflict` when names are taken and nothing is said of what happens then
 */
export const transferJob = async (
  deps: StorageDeps,
  call: StorageCall,
  wanted: TransferPlaces & Pick<Transfer, 'on_collision'>,
): Promise<Transfer> => {
  const { files, collisions, names } = await planTransfer(deps, call, wanted);
  if (collisions > 0 && wanted.on_collision === 'fail')
    throw new ServiceError(
      'conflict',
      `${collisions} of ${files} files have names that are taken at the destination.`,
      {
        details: { files, collisions, names },
        hint: 'Say what happens to them: "on_collision": "skip" or "replace".',
      },
    );
  const { role, claims } = call.caller;
  return { ...wanted, files, role, claims };
};
