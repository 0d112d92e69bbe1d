import { nameAction } from '#domain/audit/actor.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { requireVersion } from '#lib/versions.ts';
import { type Author, keepVersions, publicActor, takeRoom } from './author.ts';
import { type Fault, createChainCheck, faultsOf, valuesOf } from './check.ts';
import {
  type FlagDefinition,
  type FlagPatch,
  type Prerequisite,
  definitionText,
  parseDefinition,
  patched,
} from './definition.ts';
import { usableEnvironment } from './environments.ts';
import { faultsBySchema } from './json-schema.ts';
import {
  type Change,
  type FlagEvent,
  type FlagName,
  type FlagRow,
  type Needing,
  deleteFlags,
  emitFlagEvents,
  findFlag,
  nextVersion,
  prerequisitesIn,
  presentKeys,
  presentSegments,
  stateOf,
  touchEnvironment,
  versionOf,
  writeFlags,
} from './store.ts';

/** A flag as its changes see it. */
export interface Flag extends Omit<FlagRow, 'definition'> {
  readonly definition: FlagDefinition;
}

export const flagOf = <Row extends FlagRow>({ definition, ...row }: Row) => ({
  ...row,
  definition: parseDefinition(definition),
});

const invalid = (details: readonly Fault[]): ServiceError =>
  new ServiceError('validation_failed', 'The flag is not valid.', { details });

/** @throws {ServiceError} `not_found` */
export const getFlag = async (db: Queryable, projectId: string, name: FlagName): Promise<Flag> => {
  const row = await findFlag(db, projectId, name);
  if (row === undefined) throw notFound('flag');
  return flagOf(row);
};

const faultsOfSegments = async (db: Queryable, projectId: string, { targeting_rules: rules }: FlagDefinition) => {
  const named = rules.flatMap(({ segment }, index) => (segment === undefined ? [] : [{ segment, index }]));
  if (named.length === 0) return [];
  const present = await presentSegments(db, projectId, [...new Set(named.map(({ segment }) => segment))]);
  return named
    .filter(({ segment }) => !present.has(segment))
    .map(({ index }) => ({ path: `targeting_rules.${index}.segment`, message: 'there is no such segment' }));
};

/** The flags of an environment that take part in prerequisites, with one as it is to be. */
const chainsWith = async (
  db: Queryable,
  environmentId: string,
  { key, prerequisites }: { readonly key: string; readonly prerequisites: readonly Prerequisite[] },
): Promise<Map<string, Pick<Needing, 'prerequisites'>>> => {
  const chains = new Map<string, Pick<Needing, 'prerequisites'>>();
  const rows = await prerequisitesIn(db, environmentId);
  const needed = [...rows.flatMap((row) => row.prerequisites), ...prerequisites].map((one) => one.key);
  for (const present of await presentKeys(db, environmentId, [...new Set(needed)]))
    chains.set(present, { prerequisites: [] });
  for (const row of rows) chains.set(row.key, row);
  return chains.set(key, { prerequisites });
};

const faultsOfPrerequisites = async (
  db: Queryable,
  environmentId: string,
  flag: { readonly key: string; readonly prerequisites: readonly Prerequisite[] },
): Promise<Fault[]> => {
  if (flag.prerequisites.length === 0) return [];
  const chains = await chainsWith(db, environmentId, flag);
  const dependants = [...chains.keys()].filter((key) =>
    chains.get(key)?.prerequisites.some((needed) => needed.key === flag.key),
  );
  const faultOfChain = createChainCheck(chains);
  for (const key of [flag.key, ...dependants]) {
    const message = faultOfChain(key);
    if (message !== null) return [{ path: 'prerequisites', message }];
  }
  return [];
};

/** @throws {ServiceError} `validation_failed` */
const requireUsable = async (
  db: Queryable,
  { projectId, json }: Author,
  { key, environmentId }: { readonly key: string; readonly environmentId: string },
  definition: FlagDefinition,
): Promise<void> => {
  const own = faultsOf(key, definition);
  if (own.length > 0) throw invalid(own);
  const others = [
    ...(await faultsOfSegments(db, projectId, definition)),
    ...(await faultsOfPrerequisites(db, environmentId, { key, prerequisites: definition.prerequisites })),
    ...(await faultsBySchema(json, projectId, { schema: definition.json_schema, values: valuesOf(definition) })),
  ];
  if (others.length > 0) throw invalid(others);
};

/** Writes one flag, counts its bytes and emits its event. */
const writeFlag = async (
  db: Queryable,
  author: Author,
  change: Change & { readonly environment: string },
  {
    key,
    definition,
    bytesBefore,
    event,
  }: {
    readonly key: string;
    readonly definition: FlagDefinition;
    /** Null: it is new. */
    readonly bytesBefore: number | null;
    readonly event: FlagEvent;
  },
): Promise<Flag> => {
  const state = stateOf(key, definition);
  const bytes = Buffer.byteLength(state.text) - (bytesBefore ?? 0);
  await takeRoom(db, author, { flags: bytesBefore === null ? 1 : 0, bytes });
  await writeFlags(db, change, [state]);
  await keepVersions(db, author);
  await touchEnvironment(db, change.environmentId, change.setVersion);
  await emitFlagEvents(db, change, event, [key]);
  return getFlag(db, author.projectId, { environment: change.environment, key });
};

/**
 * Creates a flag. An environment that is not there yet comes with it, as the interface has no call to make one.
 * @throws {ServiceError} `validation_failed`, `conflict`, `plan_limit_exceeded`
 */
export const createFlag = async (
  db: Queryable,
  author: Author,
  { environment, key }: FlagName,
  definition: FlagDefinition,
): Promise<Flag> => {
  const setVersion = await nextVersion(db, author.projectId);
  const { id: environmentId } = await usableEnvironment(db, author.projectId, {
    name: environment,
    version: setVersion,
  });
  if ((await findFlag(db, author.projectId, { environment, key })) !== undefined)
    throw new ServiceError('conflict', `There is a flag ${key} in the environment ${environment} already.`);
  await requireUsable(db, author, { key, environmentId }, definition);
  const change = {
    projectId: author.projectId,
    environmentId,
    environment,
    setVersion,
    actor: publicActor(author.actor),
  };
  return writeFlag(db, author, change, { key, definition, bytesBefore: null, event: 'flag.created' });
};

/** @throws {ServiceError} `conflict` */
const requirePresent = ({ definition }: Flag): void => {
  if (definition.is_archived !== true) return;
  throw new ServiceError('conflict', 'The flag is archived.', { hint: 'Take it out of the archive first.' });
};

interface LockedFlag {
  readonly flag: Flag;
  readonly change: Change & { readonly environment: string };
}

/** A flag that nobody else changes until the transaction ends. @throws {ServiceError} `not_found`, `precondition_failed` */
const lockFlag = async (
  db: Queryable,
  { projectId, actor }: Author,
  name: FlagName,
  expected: number | null,
): Promise<LockedFlag> => {
  const setVersion = await nextVersion(db, projectId);
  const flag = await getFlag(db, projectId, name);
  requireVersion('The flag has changed', flag.version, expected);
  const { environment } = name;
  return {
    flag,
    change: { projectId, environmentId: flag.environment_id, environment, setVersion, actor: publicActor(actor) },
  };
};

/**
 * Changes a flag.
 * @param change.expected the version that it has to have; null: any
 * @param change.of the new definition, from the present one
 * @param change.ofArchived whether archived flags are changed, too
 * @throws {ServiceError} `not_found`, `precondition_failed`, `conflict` for one that is archived, `validation_failed`,
 * `plan_limit_exceeded`
 */
const changeFlag = async (
  db: Queryable,
  author: Author,
  name: FlagName,
  {
    expected,
    ofArchived = false,
    of,
  }: {
    readonly expected: number | null;
    readonly ofArchived?: boolean;
    readonly of: (flag: Flag) => FlagDefinition | Promise<FlagDefinition>;
  },
): Promise<Flag> => {
  const { flag, change } = await lockFlag(db, author, name, expected);
  if (!ofArchived) requirePresent(flag);
  const definition = await of(flag);
  const before = definitionText(flag.definition);
  if (definitionText(definition) === before) return flag;
  await requireUsable(db, author, { key: name.key, environmentId: flag.environment_id }, definition);
  const bytesBefore = Buffer.byteLength(before);
  return writeFlag(db, author, change, { key: name.key, definition, bytesBefore, event: 'flag.updated' });
};

/** Fields that are left out stay as they are. */
export const patchFlag = (
  db: Queryable,
  author: Author,
  name: FlagName,
  { expected, patch }: { readonly expected: number | null; readonly patch: FlagPatch },
): Promise<Flag> => changeFlag(db, author, name, { expected, of: ({ definition }) => patched(definition, patch) });

export const toggleFlag = async (
  db: Queryable,
  author: Author,
  name: FlagName,
  expected: number | null,
): Promise<Flag> => {
  await nameAction(db, 'flag.toggle');
  return changeFlag(db, author, name, {
    expected,
    of: ({ definition }) => ({ ...definition, is_enabled: !definition.is_enabled }),
  });
};

/** Makes a past version the present one, as a new version. @throws {ServiceError} `not_found` */
export const revertFlag = async (
  db: Queryable,
  author: Author,
  name: FlagName,
  { expected, version }: { readonly expected: number | null; readonly version: number },
): Promise<Flag> => {
  await nameAction(db, 'flag.revert');
  return changeFlag(db, author, name, {
    expected,
    of: async ({ environment_id: environmentId, key }) => {
      const text = await versionOf(db, { environmentId, key, version });
      if (text === undefined) throw notFound('version');
      return { ...parseDefinition(text), is_archived: false };
    },
  });
};

/** The flags of the environment that need this one, by key. */
export const dependantsOf = async (
  db: Queryable,
  { environment_id: environmentId, key }: Pick<Flag, 'environment_id' | 'key'>,
): Promise<string[]> =>
  (await prerequisitesIn(db, environmentId))
    .filter(({ prerequisites }) => prerequisites.some((needed) => needed.key === key))
    .map((one) => one.key);

/** @throws {ServiceError} `conflict` */
const requireUnneeded = async (db: Queryable, flag: Flag): Promise<void> => {
  const users = await dependantsOf(db, flag);
  if (users.length === 0) return;
  throw new ServiceError('conflict', `The flag is a prerequisite of ${users.slice(0, 10).join(', ')}.`, {
    details: { used_by: users.slice(0, 100) },
  });
};

/** Keeps a flag that nobody evaluates any more. @throws {ServiceError} `conflict` when others need it */
export const archiveFlag = async (
  db: Queryable,
  author: Author,
  name: FlagName,
  expected: number | null,
): Promise<Flag> => {
  await nameAction(db, 'flag.archive');
  return changeFlag(db, author, name, {
    expected,
    ofArchived: true,
    of: async (flag) => {
      await requireUnneeded(db, flag);
      return { ...flag.definition, is_archived: true };
    },
  });
};

/** @throws {ServiceError} `validation_failed` when something that it needs is gone */
export const unarchiveFlag = async (
  db: Queryable,
  author: Author,
  name: FlagName,
  expected: number | null,
): Promise<Flag> => {
  await nameAction(db, 'flag.unarchive');
  return changeFlag(db, author, name, {
    expected,
    ofArchived: true,
    of: ({ definition }) => ({ ...definition, is_archived: false }),
  });
};

/** @throws {ServiceError} `not_found`, `precondition_failed`, `conflict` when it is the prerequisite of others */
export const deleteFlag = async (
  db: Queryable,
  author: Author,
  name: FlagName,
  expected: number | null,
): Promise<void> => {
  const { flag, change } = await lockFlag(db, author, name, expected);
  await requireUnneeded(db, flag);
  const bytes = await deleteFlags(db, change, [name.key]);
  await takeRoom(db, author, { flags: -1, bytes: -bytes });
  await touchEnvironment(db, change.environmentId, change.setVersion);
  await emitFlagEvents(db, change, 'flag.deleted', [name.key]);
};

/**
 * Throws what a patch would be refused for, without changing anything.
 * @returns the definition as the patch would make it
 * @throws {ServiceError} `validation_failed`, `conflict` for a flag that is archived
 */
export const checkPatch = async (
  db: Queryable,
  author: Author,
  flag: Flag,
  patch: FlagPatch,
): Promise<FlagDefinition> => {
  requirePresent(flag);
  const definition = patched(flag.definition, patch);
  await requireUsable(db, author, { key: flag.key, environmentId: flag.environment_id }, definition);
  return definition;
};
