import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { defaultEnvironment } from './definition.ts';

/** Flags and segments as rows, for the processes that serve them. */

export interface LoadedEnvironment {
  /** Null: nothing was written yet. */
  readonly id: string | null;
  readonly name: string;
  readonly version: number;
  /** All flags, not those alone that were changed. */
  readonly isWhole: boolean;
  /** `definition`: JSON text. */
  readonly flags: readonly { readonly key: string; readonly definition: string }[];
  /** Archived ones are among them: a process that serves flags knows of none. */
  readonly deleted: readonly string[];
}

export interface LoadedProject {
  readonly version: number;
  readonly environments: readonly LoadedEnvironment[];
  /** Only changed ones. `conditions`: JSON text; `keys`: one in each line. */
  readonly segments: readonly {
    readonly key: string;
    readonly conditions: string | null;
    readonly keys: string | null;
  }[];
  /** The keys of all segments. */
  readonly segmentKeys: readonly string[];
}

export interface Wanted {
  /** The version of the project that is known. */
  readonly since: number;
  /** Environments whose flags of that version are known, by name: another one may have got the name. */
  readonly known: ReadonlyMap<string, string | null>;
  /** An environment that is wanted whole. */
  readonly more: string | null;
}

/** The versions of projects that have flags. */
export const versionsOf = async (
  db: Queryable,
  projectIds: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  const rows = await db.query<{ project_id: string; version: number }>(
    'select project_id, version from flag_sets where project_id = any ($1::uuid[])',
    [projectIds],
    'flag-versions',
  );
  return new Map(rows.map(({ project_id: id, version }) => [id, version]));
};

interface EnvironmentRow {
  readonly id: string;
  readonly name: string;
  readonly version: number;
}

const loadEnvironment = async (
  db: Queryable,
  { id, name, version }: EnvironmentRow,
  since: number | null,
): Promise<LoadedEnvironment> => {
  const isUnchanged = since !== null && version <= since;
  const flags = isUnchanged
    ? []
    : await db.query<{ key: string; definition: string }>(
        `select key, definition::text as definition from flags
         where environment_id = $1 and set_version > $2 and not is_archived order by key`,
        [id, since ?? -1],
      );
  const deleted =
    since === null || isUnchanged
      ? []
      : await db.query<{ key: string }>(
          `select key from flag_history where environment_id = $1 and set_version > $2 and definition is null
           union all select key from flags where environment_id = $1 and set_version > $2 and is_archived`,
          [id, since],
        );
  return { id, name, version, isWhole: since === null, flags, deleted: deleted.map(({ key }) => key) };
};

const nothing = (name: string): LoadedEnvironment => ({
  id: null,
  name,
  version: 0,
  isWhole: true,
  flags: [],
  deleted: [],
});

const load = async (db: Queryable, projectId: string, { since, known, more }: Wanted): Promise<LoadedProject> => {
  const [set] = await db.query<{ version: number; forgotten: number }>(
    'select version, forgotten_version as forgotten from flag_sets where project_id = $1',
    [projectId],
  );
  // Before its first flag a project has the one environment that there always is.
  if (set === undefined) {
    const isWanted = more === defaultEnvironment || known.has(defaultEnvironment);
    return { version: 0, environments: isWanted ? [nothing(defaultEnvironment)] : [], segments: [], segmentKeys: [] };
  }
  const rows = await db.query<EnvironmentRow>(
    'select id, name, version from flag_environments where project_id = $1 and name = any ($2::text[])',
    [projectId, [...known.keys(), ...(more === null ? [] : [more])]],
  );
  const isKnown = ({ id, name }: EnvironmentRow): boolean => known.get(name) === id && set.forgotten <= since;
  const environments: LoadedEnvironment[] = [];
  for (const row of rows) environments.push(await loadEnvironment(db, row, isKnown(row) ? since : null));
  const segments = await db.query<LoadedProject['segments'][number]>(
    `select key, conditions::text as conditions, keys from flag_segments
     where project_id = $1 and set_version > $2 order by key`,
    [projectId, since],
  );
  const keys = await db.query<{ key: string }>('select key from flag_segments where project_id = $1', [projectId]);
  return { version: set.version, environments, segments, segmentKeys: keys.map(({ key }) => key) };
};

/** All at one moment: an import or a change of several flags is there whole, or not at all. */
export const loadProject = (db: ControlDb, projectId: string, wanted: Wanted): Promise<LoadedProject> =>
  db.transaction((tx) => load(tx, projectId, wanted), {
    transaction_isolation: 'repeatable read',
    transaction_read_only: 'on',
  });
