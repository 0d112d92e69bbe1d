import { endOf, folderOf, foldersSql, likeStart } from './list.ts';
import type { StorageCall, StorageDeps } from './storage.ts';
import { read } from './store.ts';

/** How much a folder holds, as far as the caller may see it. */
export interface FolderTotals {
  /** Directly in the folder, with names that begin with the search. */
  readonly folders: number;
  readonly files: number;
  /** In the folder and in all below it, whatever their names. */
  readonly all_files: number;
  readonly all_bytes: number;
  /** False: there are more than are counted. */
  readonly is_exact: boolean;
}

/** Counting a million entries of the index takes 0.2 s; a larger folder is said to have more than that. */
const maxCounted = 1_000_000;
/** Each folder is a step in the index of its own. */
const maxFolders = 100_000;

const totalsSql = `
  select json_build_object(
    'folders', (select count(*) from (
      select 1 from (${foldersSql('asc')}) d where d.name ilike $4 limit ${maxFolders}) n),
    'files', (select count(*) from (
      select 1 from only storage.objects f
      where f.bucket_id = $1 and f.folder = $2 and substr(f.name, length($2) + 1) ilike $4 limit ${maxCounted}) n),
    'all_files', a.files, 'all_bytes', a.bytes)::text
  from (
    select count(*) as files, coalesce(sum(n.size), 0)::float8 as bytes from (
      select o.size from only storage.objects o
      where o.bucket_id = $1 and o.name >= $2 and o.name < $3 limit ${maxCounted}) n) a`;

/**
 * Counts what is in a folder, so that a list of it has its length, and a deletion can say what it takes.
 * @param of.prefix the folder, with or without a slash at its end; empty: the bucket's root
 */
export const folderTotals = async (
  deps: StorageDeps,
  call: StorageCall,
  { bucket, prefix, search }: { readonly bucket: string; readonly prefix: string; readonly search: string },
): Promise<FolderTotals> => {
  const folder = folderOf(prefix);
  const [row] = await read(deps, call, totalsSql, [bucket, folder, endOf(folder), likeStart(search)]);
  const totals = JSON.parse(row ?? '{}') as Omit<FolderTotals, 'is_exact'>;
  const isExact = totals.all_files < maxCounted && totals.folders < maxFolders;
  return { ...totals, is_exact: isExact };
};
