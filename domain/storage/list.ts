import { ServiceError } from '#lib/errors.ts';
import { maxNameBytes } from './names.ts';
import type { StorageCall, StorageDeps } from './storage.ts';
import { read } from './store.ts';

/** One entry of a list: an object, or a folder, of which only the name is known. */
export interface ListEntry {
  readonly name: string;
  readonly id: string | null;
  readonly updated_at: string | null;
  readonly created_at: string | null;
  readonly last_accessed_at: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
}

type SortColumn = 'name' | 'created_at' | 'updated_at' | 'last_accessed_at';

export interface ListRequest {
  readonly bucket: string;
  /** The folder, with or without a slash at its end; empty: the bucket's root. */
  readonly prefix: string;
  /** The beginning of the names wanted, whatever the case of its letters. */
  readonly search: string;
  readonly limit: number;
  readonly offset: number;
  readonly column: SortColumn;
  readonly order: 'asc' | 'desc';
}

const instant = (column: string): string => `to_char(${column} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The time of the last read is not recorded, so its column is that of the upload. */
const sortedBy = (column: SortColumn): string => (column === 'last_accessed_at' ? 'created_at' : column);

/** The character after the slash: names below a folder end before it. */
const afterSlash = '0';

/**
 * The folders directly below folder $2 of bucket $1 that have an object which the caller may see: from one to the next
 * by the index, however many objects are below each.
 */
export const foldersSql = (order: 'asc' | 'desc'): string => {
  const isUp = order === 'asc';
  const bound = isUp ? `'${afterSlash}'` : `'/'`;
  const next = (low: string, high: string): string => `select o.folder from only storage.objects o
    where o.bucket_id = $1 and o.folder ${low} and o.folder < ${high} order by o.folder ${order} limit 1`;
  const child = `split_part(substr(f.folder, length($2) + 1), '/', 1)`;
  const beyond = `($2 || ${child} || ${bound}) collate "C"`;
  return `with recursive f (folder) as (
      (${next('> $2', '$3')})
      union all
      select (${isUp ? next(`>= ${beyond}`, '$3') : next('> $2', beyond)}) from f where f.folder is not null)
    select ${child} as name from f where f.folder is not null`;
};

export const likeStart = (text: string): string => `${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

const folderNamesSql = (order: 'asc' | 'desc'): string => `
  select coalesce(json_agg(d.name), '[]')::text
  from (select d.name from (${foldersSql(order)}) d where d.name ilike $4 limit $5::int) d`;

/**
 * The names alone first: rows before the offset are skipped within the index of the folder. One statement for the usual
 * list and one with a search, so that neither is planned for the other.
 */
const filesSql = (column: string, order: 'asc' | 'desc', isSearch: boolean): string => `
  select coalesce(json_agg(json_build_object('name', substr(o.name, length($2) + 1), 'id', o.id,
    'updated_at', ${instant('o.updated_at')}, 'created_at', ${instant('o.created_at')},
    'last_accessed_at', ${instant('o.created_at')}, 'metadata', o.metadata) order by n.place), '[]')::text
  from (
    select p.name, row_number() over () as place from (
      select f.name from only storage.objects f
      where f.bucket_id = $1 and f.folder = $2 ${isSearch ? 'and substr(f.name, length($2) + 1) ilike $5' : ''}
      order by f.bucket_id, f.folder, f.${column} ${order}${column === 'name' ? '' : ', f.name'}
      limit $3::int offset $4::int) p) n
    cross join lateral (
      select * from only storage.objects f where f.bucket_id = $1 and f.name = n.name limit 1) o`;

/** Behind every name, since it is longer than one may be: with it both bounds are ones that the index knows. */
const endOfAll = '\u{10FFFF}'.repeat(maxNameBytes / 4 + 1);

/** Where the names below a folder end. */
export const endOf = (folder: string): string => (folder === '' ? endOfAll : `${folder.slice(0, -1)}${afterSlash}`);

export const folderOf = (prefix: string): string => {
  const bare = prefix.replaceAll(/^\/+|\/+$/g, '');
  return bare === '' ? '' : `${bare}/`;
};

const folderEntry = (name: string): ListEntry => ({
  name,
  id: null,
  updated_at: null,
  created_at: null,
  last_accessed_at: null,
  metadata: null,
});

const readList = async <T>(
  deps: StorageDeps,
  call: StorageCall,
  sql: string,
  params: readonly (string | number)[],
): Promise<readonly T[]> => {
  const [rows] = await read(deps, call, sql, params);
  return JSON.parse(rows ?? '[]') as T[];
};

/** The entries of one folder: its folders first, then its objects, as storage-js lists them. */
export const list = async (
  deps: StorageDeps,
  call: StorageCall,
  { bucket, prefix, search, limit, offset, column, order }: ListRequest,
): Promise<readonly ListEntry[]> => {
  const folder = folderOf(prefix);
  const [like, direction] = [likeStart(search), column === 'name' ? order : 'asc'];
  const ofFolders = [bucket, folder, endOf(folder), like, offset + limit];
  const names = await readList<string>(deps, call, folderNamesSql(direction), ofFolders);
  const folders = names.slice(offset).map(folderEntry);
  if (folders.length === limit) return folders;
  const sql = filesSql(sortedBy(column), order, search !== '');
  const ofFiles = [bucket, folder, limit - folders.length, Math.max(0, offset - names.length)];
  const files = await readList<ListEntry>(deps, call, sql, search === '' ? ofFiles : [...ofFiles, like]);
  return [...folders, ...files];
};

export interface PageRequest {
  readonly bucket: string;
  /** The beginning of the names, as it is: `a` finds `ab` and `a/b`. */
  readonly prefix: string;
  readonly limit: number;
  readonly cursor: string | null;
  /** Names are cut at the next slash after the prefix: what is below is one folder. */
  readonly withDelimiter: boolean;
  readonly column: 'name' | 'created_at' | 'updated_at';
  readonly order: 'asc' | 'desc';
}

interface PageObject extends ListEntry {
  readonly key: string;
}

export interface Page {
  readonly hasNext: boolean;
  readonly nextCursor?: string;
  readonly folders: readonly { readonly name: string; readonly key: string }[];
  readonly objects: readonly PageObject[];
}

/** Where a page begins: at the first name that is not before the bound; for times, behind that time and name. */
interface Cursor {
  readonly bound: string;
  readonly time: string | null;
}

const cursorText = (cursor: Cursor): string => Buffer.from(JSON.stringify(cursor)).toString('base64url');

const invalidCursor = (): ServiceError =>
  new ServiceError('validation_failed', 'cursor is not one of a list.', {
    details: [{ path: 'cursor', message: 'is not one of a list' }],
  });

const parseCursor = (text: string): Cursor => {
  try {
    const { bound, time } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<string, unknown>;
    if (typeof bound !== 'string' || bound.includes('\0') || !bound.isWellFormed()) throw invalidCursor();
    if (time !== null && (typeof time !== 'string' || Number.isNaN(Date.parse(time)))) throw invalidCursor();
    return { bound, time };
  } catch {
    throw invalidCursor();
  }
};

const pageEntry = (key: string): string => `json_build_object('name', ${key}, 'key', ${key}, 'id', o.id,
  'updated_at', ${instant('o.updated_at')}, 'created_at', ${instant('o.created_at')},
  'last_accessed_at', ${instant('o.created_at')}, 'metadata', o.metadata)`;

/** The first character that no name contains: behind a name, and before every other that begins with it. */
const leastCharacter = '\u0001';

/**
 * By name, from one entry to the next by the index. $1 bucket, $2 prefix, $3 the end of the prefix, $4 bound, $5 number
 * of entries. Each row has the bound of the row after it.
 */
const byNameSql = ({ order, withDelimiter }: PageRequest): string => {
  const isUp = order === 'asc';
  const step = (bound: string): string => `select o.name from only storage.objects o
    where o.bucket_id = $1 and o.name >= ${isUp ? bound : '$2'} and o.name < ${isUp ? '$3' : `least(${bound}, $3)`}
    order by o.name ${order} limit 1`;
  const rest = 'substr(s.name, length($2) + 1)';
  const isFolder = withDelimiter ? `strpos(${rest}, '/') > 0` : 'false';
  const folder = `$2 || split_part(${rest}, '/', 1)`;
  const next = `case when ${isFolder} then ${folder} || '${isUp ? afterSlash : '/'}' else s.name${isUp ? ` || '${leastCharacter}'` : ''} end`;
  return `with recursive s (name, place) as (
      select (${step('$4')}), 1
      union all
      select (${step(`(${next}) collate "C"`)}), s.place + 1 from s where s.name is not null and s.place <= $5::int)
    select coalesce(json_agg(json_build_object('folder', case when ${isFolder} then ${folder} || '/' end, 'next', ${next},
      'object', case when ${isFolder} then null else (
        select ${pageEntry('o.name')} from only storage.objects o where o.bucket_id = $1 and o.name = s.name) end)
      order by s.place), '[]')::text
    from s where s.name is not null`;
};

/** By a time, without folders: the objects directly below the prefix, or all with it. */
const byTimeSql = ({ column, order, withDelimiter }: PageRequest): string => {
  const beyond = order === 'asc' ? '>' : '<';
  return `select coalesce(json_agg(json_build_object('folder', null, 'next', p.name, 'time', p.${column}::text, 'object', p.entry)
      order by p.place), '[]')::text
    from (select o.name, o.${column}, ${pageEntry('o.name')} as entry,
        row_number() over (order by o.${column} ${order}, o.name ${order}) as place
      from only storage.objects o
      where o.bucket_id = $1 and o.name >= $2 and o.name < $3
        ${withDelimiter ? `and strpos(substr(o.name, length($2) + 1), '/') = 0` : ''}
        and ($6::text is null or (o.${column}, o.name) ${beyond} ($6::timestamptz, $4 collate "C"))
      order by o.${column} ${order}, o.name ${order} limit $5::int + 1) p`;
};

interface PageRow {
  readonly folder: string | null;
  readonly next: string;
  readonly time?: string;
  readonly object: PageObject | null;
}

/** Where names with a prefix end: the prefix with its last character raised. */
const endOfPrefix = (prefix: string): string => {
  const characters = Array.from(prefix);
  const last = characters.pop()?.codePointAt(0);
  if (last === undefined || last >= 0x10ffff) return endOfAll;
  // The surrogates are no characters of their own.
  return `${characters.join('')}${String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1)}`;
};

/** One page of a bucket, in an order that new objects do not shift. */
export const listPage = async (deps: StorageDeps, call: StorageCall, request: PageRequest): Promise<Page> => {
  const { bucket, prefix, limit, column } = request;
  const end = endOfPrefix(prefix);
  const first = { bound: request.order === 'asc' ? prefix : end, time: null };
  const cursor = request.cursor === null ? first : parseCursor(request.cursor);
  const params = [bucket, prefix, end, cursor.bound, limit];
  const [text] =
    column === 'name'
      ? await read(deps, call, byNameSql(request), params)
      : await read(deps, call, byTimeSql(request), [...params, cursor.time]);
  const rows = JSON.parse(text ?? '[]') as PageRow[];
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasNext = rows.length > limit;
  return {
    hasNext,
    ...(hasNext && last !== undefined && { nextCursor: cursorText({ bound: last.next, time: last.time ?? null }) }),
    folders: page.flatMap(({ folder }) => (folder === null ? [] : [{ name: folder, key: folder }])),
    objects: page.flatMap(({ object }) => (object === null ? [] : [object])),
  };
};
