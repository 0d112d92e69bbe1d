import { noteInProject } from '#domain/audit/audit.ts';
import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { type Author, keepVersions, publicActor, takeRoom } from './author.ts';
import { requireEnvironment, usableEnvironment } from './environments.ts';
import { type SegmentFields, changeSegment, createSegment } from './segments.ts';
import {
  type Change,
  type NewState,
  bytesOf,
  deleteFlags,
  emitFlagEvents,
  fingerprintOf,
  nextVersion,
  presentSegments,
  touchEnvironment,
  writeFlags,
} from './store.ts';

/** Whole environments: export, import, copy, compare. */

/** Flags of a file, checked by themselves and among each other. */
export interface ImportedFlags {
  readonly flags: readonly NewState[];
  readonly segments: readonly (SegmentFields & { readonly key: string })[];
  /** Segments that the flags name. */
  readonly named: readonly string[];
}

/** Keys by what becomes, or would become, of the flags. */
export interface Difference {
  readonly created: string[];
  readonly updated: string[];
  readonly deleted: string[];
  readonly unchanged: string[];
}

const fingerprintsIn = async (db: Queryable, environmentId: string): Promise<Map<string, string>> => {
  const rows = await db.query<{ key: string; fingerprint: Buffer }>(
    'select key, fingerprint from flags where environment_id = $1 order by key',
    [environmentId],
  );
  return new Map(rows.map(({ key, fingerprint }) => [key, fingerprint.toString('latin1')]));
};

const differenceOf = (present: ReadonlyMap<string, string>, wanted: readonly NewState[]): Difference => {
  const found: Difference = { created: [], updated: [], deleted: [], unchanged: [] };
  const keys = new Set(wanted.map(({ key }) => key));
  for (const { key, text } of wanted) {
    const fingerprint = present.get(key);
    if (fingerprint === undefined) found.created.push(key);
    else if (fingerprint === fingerprintOf(text).toString('latin1')) found.unchanged.push(key);
    else found.updated.push(key);
  }
  for (const key of present.keys()) if (!keys.has(key)) found.deleted.push(key);
  return found;
};

type EnvironmentChange = Change & { readonly environment: string };

const batch = 500;

/** Changes of flags that follow in the transaction leave no audit entries of their own: there can be 10,000. */
const auditAtOnce = async (db: Queryable): Promise<void> => {
  await db.query(`select set_config('plinth.flags_at_once', 'on', true)`);
};

/** One entry for a change of a whole environment. The history of each flag says what it was. */
const noteAtOnce = async (
  db: Queryable,
  { projectId, actor }: Author,
  { action, environmentId, environment }: { action: string; environmentId: string; environment: string },
  { created, updated, deleted }: Difference,
): Promise<void> => {
  const counts = { environment, created: created.length, updated: updated.length, deleted: deleted.length };
  const project = await one(
    db.query<{ id: string; org_id: string }>('select id, org_id from projects where id = $1', [projectId]),
  );
  await noteInProject(db, project, {
    actor,
    action,
    targetType: 'flag_environment',
    targetId: environmentId,
    after: counts,
  });
};

const writeInBatches = async (db: Queryable, change: Change, states: readonly NewState[]): Promise<void> => {
  for (let at = 0; at < states.length; at += batch) await writeFlags(db, change, states.slice(at, at + batch));
};

/** Makes an environment's flags those of a list, in the caller's transaction. */
const apply = async (
  db: Queryable,
  author: Author,
  change: EnvironmentChange,
  { difference, wanted }: { readonly difference: Difference; readonly wanted: readonly NewState[] },
): Promise<void> => {
  const { created, updated, deleted } = difference;
  const changed = new Set([...created, ...updated]);
  const states = wanted.filter(({ key }) => changed.has(key));
  const before = await bytesOf(db, change.environmentId, updated);
  const after = states.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
  const gone = await deleteFlags(db, change, deleted);
  await takeRoom(db, author, { flags: created.length - deleted.length, bytes: after - before - gone });
  await writeInBatches(db, change, states);
  await keepVersions(db, author);
  if (changed.size + deleted.length === 0) return;
  await touchEnvironment(db, change.environmentId, change.setVersion);
  await emitFlagEvents(db, change, 'flag.created', created);
  await emitFlagEvents(db, change, 'flag.updated', updated);
  await emitFlagEvents(db, change, 'flag.deleted', deleted);
};

/** @throws {ServiceError} `validation_failed` for segments that are neither in the file nor in the project */
const requireSegments = async (db: Queryable, projectId: string, { named, segments }: ImportedFlags): Promise<void> => {
  const inFile = new Set(segments.map(({ key }) => key));
  const others = named.filter((key) => !inFile.has(key));
  const present = await presentSegments(db, projectId, others);
  const missing = others.filter((key) => !present.has(key));
  if (missing.length === 0) return;
  throw new ServiceError('validation_failed', 'The file is not valid.', {
    details: missing.slice(0, 20).map((key) => ({ path: 'segments', message: `there is no segment ${key}` })),
  });
};

const putSegments = async (db: Queryable, author: Author, { segments }: ImportedFlags): Promise<void> => {
  const keys = segments.map(({ key }) => key);
  const present = await presentSegments(db, author.projectId, keys);
  for (const { key, ...fields } of segments) {
    if (!present.has(key)) await createSegment(db, author, key, fields);
    else
      await changeSegment(db, author, key, {
        ...fields,
        conditions: fields.conditions ?? undefined,
        keys: fields.keys ?? undefined,
      });
  }
};

/**
 * Makes an environment equal to a file: what is not in it is deleted. Segments of the file are created or changed.
 * @param imported.dryRun only answers what would become of the flags
 * @throws {ServiceError} `validation_failed`, `plan_limit_exceeded`
 */
export const importFlags = async (
  db: Queryable,
  author: Author,
  {
    environment,
    file,
    dryRun,
  }: { readonly environment: string; readonly file: ImportedFlags; readonly dryRun: boolean },
): Promise<Difference> => {
  const { projectId } = author;
  if (dryRun) {
    await requireSegments(db, projectId, file);
    const [found] = await db.query<{ id: string }>(
      'select id from flag_environments where project_id = $1 and name = $2',
      [projectId, environment],
    );
    return differenceOf(found ? await fingerprintsIn(db, found.id) : new Map(), file.flags);
  }
  const setVersion = await nextVersion(db, projectId);
  await requireSegments(db, projectId, file);
  const { id: environmentId } = await usableEnvironment(db, projectId, { name: environment, version: setVersion });
  const difference = differenceOf(await fingerprintsIn(db, environmentId), file.flags);
  await putSegments(db, author, file);
  const change = { projectId, environmentId, environment, setVersion, actor: publicActor(author.actor) };
  await auditAtOnce(db);
  await noteAtOnce(db, author, { action: 'flag_environment.import', environmentId, environment }, difference);
  await apply(db, author, change, { difference, wanted: file.flags });
  return difference;
};

interface StoredFlag {
  readonly key: string;
  readonly name: string;
  readonly flag_type: NewState['definition']['flag_type'];
  readonly is_enabled: boolean;
  readonly is_archived: boolean;
  readonly text: string;
}

const storedIn = (db: Queryable, environmentId: string): Promise<StoredFlag[]> =>
  db.query<StoredFlag>(
    `select key, name, flag_type, is_enabled, is_archived, definition::text as text from flags
     where environment_id = $1 order by key`,
    [environmentId],
  );

/**
 * Copies the flags of an environment into another, which is made where there is none. Flags that are there alone stay.
 * @throws {ServiceError} `not_found`, `conflict`, `plan_limit_exceeded`
 */
export const copyEnvironment = async (
  db: Queryable,
  author: Author,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<Difference> => {
  const { projectId } = author;
  if (from === to) throw new ServiceError('conflict', 'An environment cannot be copied to itself.');
  const setVersion = await nextVersion(db, projectId);
  const source = await requireEnvironment(db, projectId, from);
  const target = await usableEnvironment(db, projectId, { name: to, version: setVersion });
  const wanted = (await storedIn(db, source.id)).map((row) => ({ key: row.key, definition: row, text: row.text }));
  const found = differenceOf(await fingerprintsIn(db, target.id), wanted);
  const difference = { ...found, deleted: [] };
  const change = { projectId, environmentId: target.id, environment: to, setVersion, actor: publicActor(author.actor) };
  await auditAtOnce(db);
  await noteAtOnce(
    db,
    author,
    { action: 'flag_environment.copy', environmentId: target.id, environment: to },
    difference,
  );
  await apply(db, author, change, { difference, wanted });
  return difference;
};

export interface Comparison {
  readonly only_from: string[];
  readonly only_to: string[];
  /** `fields`: of the definitions, by name. */
  readonly different: { readonly key: string; readonly fields: string[] }[];
}

/** @throws {ServiceError} `not_found` */
export const compareEnvironments = async (
  db: Queryable,
  projectId: string,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<Comparison> => {
  const [mine, theirs] = [await requireEnvironment(db, projectId, from), await requireEnvironment(db, projectId, to)];
  const rows = await db.query<{ key: string; side: 'from' | 'to' | 'both'; fields: string[] | null }>(
    `select coalesce(a.key, b.key) as key,
       case when b.key is null then 'from' when a.key is null then 'to' else 'both' end as side,
       case when a.key is not null and b.key is not null then (
         select array_agg(coalesce(x.key, y.key) order by coalesce(x.key, y.key)) from json_each_text(a.definition) x
         full join json_each_text(b.definition) y on y.key = x.key where x.value is distinct from y.value) end as fields
     from (select * from flags where environment_id = $1) a
     full join (select * from flags where environment_id = $2) b on b.key = a.key
     where a.fingerprint is distinct from b.fingerprint order by 1`,
    [mine.id, theirs.id],
  );
  const keysOf = (side: string): string[] => rows.filter((row) => row.side === side).map(({ key }) => key);
  return {
    only_from: keysOf('from'),
    only_to: keysOf('to'),
    different: rows.filter(({ side }) => side === 'both').map(({ key, fields }) => ({ key, fields: fields ?? [] })),
  };
};

/** An environment with its flags and the segments of the project, as JSON text in pieces. */
export const exportFlags = async (db: Queryable, projectId: string, environment: string): Promise<string[]> => {
  const { id } = await requireEnvironment(db, projectId, environment);
  const flags = await storedIn(db, id);
  const segments = await db.query<{ text: string }>(
    `select case when keys is null then json_build_object('key', key, 'name', name, 'conditions', conditions)
       else json_build_object('key', key, 'name', name, 'keys',
         case when keys = '' then '[]'::json else to_json(string_to_array(keys, E'\\n')) end) end::text as text
     from flag_segments where project_id = $1 order by key`,
    [projectId],
  );
  // The text of a definition begins with its brace.
  const pieces = flags.map(
    ({ key, text }, place) => `${place === 0 ? '' : ','}{"key":${JSON.stringify(key)},${text.slice(1)}`,
  );
  return [
    `{"environment":${JSON.stringify(environment)},"flags":[`,
    ...pieces,
    '],"segments":[',
    ...segments.map(({ text }, place) => (place === 0 ? text : `,${text}`)),
    ']}',
  ];
};
