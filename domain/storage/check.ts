import type { Client } from 'pg';
import { type DatabaseServers, inDatabase } from '#domain/database-servers/database-servers.ts';
import { type Project, projectColumns } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { ListedObject, ObjectStore } from '#lib/object-store/object-store.ts';

/** One thing about which rows and bytes of a project do not agree. */
export interface Disagreement {
  /** `missing` and `size` lose data; `orphan` waits for the sweep; `usage`: the sum differs from what is counted. */
  readonly kind: 'missing' | 'size' | 'orphan' | 'usage';
  readonly what: string;
}

interface Row {
  readonly version: string;
  readonly bucket_id: string | null;
  readonly name: string | null;
  readonly size: number;
}

const pageSize = 1000;

/** Contents that rows or tombstones name, in the order of their versions. */
const rowsOf = async function* rowsOf(client: Client): AsyncGenerator<Row> {
  let after = '';
  for (;;) {
    const { rows } = await client.query<Row>(
      `select version::text as version, bucket_id, name, size::float8 as size from only storage.objects
         where version::text collate "C" > $1
       union all
       select version::text, null, null, size::float8 from plinth.storage_tombstones where version::text collate "C" > $1
       order by 1 limit ${pageSize}`,
      [after],
    );
    yield* rows;
    if (rows.length < pageSize) return;
    after = rows.at(-1)?.version ?? '';
  }
};

const checkUsage = async (client: Client): Promise<readonly Disagreement[]> => {
  const { rows } = await client.query<{ counted: string; real: string }>(
    `select format('%s bytes of %s objects', u.bytes, u.objects) as counted,
       (select format('%s bytes of %s objects', coalesce(sum(size), 0), count(*)) from only storage.objects) as real
     from plinth.storage_usage u`,
  );
  return rows.flatMap(({ counted, real }) =>
    counted === real ? [] : [{ kind: 'usage', what: `counted are ${counted}, there are ${real}` }],
  );
};

const nameOf = ({ bucket_id, name }: Row): string => `${bucket_id}/${name}`;

interface Paired {
  readonly row: Row | undefined;
  readonly stored: ListedObject | undefined;
}

const nextOf = async <T>(items: AsyncIterator<T>): Promise<T | undefined> => {
  const next = await items.next();
  return next.done === true ? undefined : next.value;
};

const versionIn = ({ key }: ListedObject): string => key.slice(key.lastIndexOf('/') + 1);

/** Behind every version. */
const last = '~';

/** Rows and contents of the same version; both come in order. */
const paired = async function* paired(
  rows: AsyncIterable<Row>,
  contents: AsyncIterable<ListedObject>,
): AsyncGenerator<Paired> {
  const [left, right] = [rows[Symbol.asyncIterator](), contents[Symbol.asyncIterator]()];
  let [row, stored] = [await nextOf(left), await nextOf(right)];
  while (row !== undefined || stored !== undefined) {
    const [a, b]: [string, string] = [row?.version ?? last, stored === undefined ? last : versionIn(stored)];
    yield { row: a <= b ? row : undefined, stored: b <= a ? stored : undefined };
    if (a <= b) row = await nextOf(left);
    if (b <= a) stored = await nextOf(right);
  }
};

/** The content of a tombstone may be gone already. */
const compare = (row: Row | undefined, stored: ListedObject | undefined): Disagreement | null => {
  if (row === undefined) return stored === undefined ? null : { kind: 'orphan', what: stored.key };
  if (stored === undefined) return row.name === null ? null : { kind: 'missing', what: nameOf(row) };
  if (stored.size === row.size) return null;
  return { kind: 'size', what: row.name === null ? stored.key : nameOf(row) };
};

/**
 * Compares the rows of a project with its bytes, both in order. What is uploaded, replaced or deleted meanwhile may show
 * up as an orphan.
 */
export const checkFiles = (
  { servers, bytes }: { readonly servers: Pick<DatabaseServers, 'connectTo'>; readonly bytes: ObjectStore },
  project: Pick<Project, 'id' | 'server_id' | 'db_name'>,
): Promise<readonly Disagreement[]> =>
  inDatabase(servers, project, async (client) => {
    const has = await client.query<{ has: boolean }>('select plinth.has_storage() as has');
    if (has.rows[0]?.has !== true) return [];
    const found: Disagreement[] = [...(await checkUsage(client))];
    for await (const { row, stored } of paired(rowsOf(client), bytes.list(`${project.id}/`))) {
      const disagreement = compare(row, stored);
      if (disagreement !== null) found.push(disagreement);
    }
    return found;
  });

/** An orphan takes room for a while; everything else is wrong. */
const isLoss = ({ kind }: Disagreement): boolean => kind !== 'orphan';

/** Compares all projects that can be used; answers how many, and how often they disagreed. */
export const checkAllFiles = async (
  deps: {
    readonly db: Queryable;
    readonly servers: Pick<DatabaseServers, 'connectTo'>;
    readonly bytes: ObjectStore;
  },
  onFound: (project: Project, disagreement: Disagreement) => void,
): Promise<{ readonly projects: number; readonly found: number; readonly lost: number }> => {
  const projects = await deps.db.query<Project>(
    `select ${projectColumns} from projects p where p.deleted_at is null and p.status in ('active', 'paused') order by p.id`,
  );
  let [found, lost] = [0, 0];
  for (const project of projects) {
    for (const disagreement of await checkFiles(deps, project)) {
      onFound(project, disagreement);
      found += 1;
      if (isLoss(disagreement)) lost += 1;
    }
  }
  return { projects: projects.length, found, lost };
};
