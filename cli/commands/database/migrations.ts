import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import {
  type InProject,
  type Run,
  call,
  inFolder,
  inProject,
  isOn,
  listAll,
  requireArgument,
  shownPath,
} from '../../cli.ts';
import { Failure, exits, systemCode, usage } from '../../errors.ts';
import { fileFailure, readText, writeWhole } from '../../files.ts';
import { clean, cleanLine } from '../../text.ts';
import { sqlPlace } from './place.ts';
import type { Operations } from '../../types.ts';

/** A file of `plinth/migrations`: `<time>_<name>.sql`. */
export interface Migration {
  readonly name: string;
  readonly file: string;
  readonly sql: string;
  readonly checksum: string;
}

type Applied = Operations['GET /projects/{project_id}/db/migrations']['answer']['migrations'][number];

export const checksumOf = (sql: string): string => createHash('sha256').update(sql).digest('hex');

const fileForm = /^\d{8,14}_[A-Za-z0-9_-]{1,100}\.sql$/;

const migrationNames = async (folder: string): Promise<string[]> => {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw fileFailure('read', folder, error);
  }
};

/** The migrations of the folder, in their order. @throws {Failure} `usage` for a file whose place is not clear */
export const localMigrations = async (run: Run): Promise<Migration[]> => {
  const folder = inFolder(run, 'migrations');
  const names = await migrationNames(folder);
  const odd = names.find((name) => !fileForm.test(name));
  if (odd !== undefined) {
    throw usage(
      `plinth/migrations/${cleanLine(odd)} is not called <time>_<name>.sql.`,
      'Make migrations with `plinth db new <name>`.',
    );
  }
  return Promise.all(
    names.map(async (name) => {
      const file = path.join(folder, name);
      const sql = await readText(file);
      return { name: name.slice(0, -'.sql'.length), file, sql, checksum: checksumOf(sql) };
    }),
  );
};

export const appliedMigrations = (project: InProject): Promise<Applied[]> =>
  listAll<Applied>(project, `${project.path}/db/migrations`, 'migrations');

/** `20260131120000`, in UTC: files of two people sort alike everywhere. */
export const timeName = (at: Date): string => at.toISOString().replaceAll(/\D/g, '').slice(0, 14);

/** The time of a new file: now, or a second after the last one, so that it comes behind. */
const nextTime = (names: readonly string[], now: Date): string => {
  const last = names.at(-1)?.split('_', 1)[0]?.padEnd(14, '0') ?? '';
  const time = timeName(now);
  return time > last ? time : String(BigInt(last) + 1n);
};

/** The file of a new migration, which comes behind the others. @throws {Failure} `usage` */
export const fileOfNew = async (run: Run, given: string): Promise<string> => {
  const name = given
    .trim()
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '');
  if (name === '' || name.length > 100) throw usage(`"${cleanLine(given)}" cannot be the name of a migration.`);
  const folder = inFolder(run, 'migrations');
  return path.join(folder, `${nextTime(await migrationNames(folder), new Date())}_${name}.sql`);
};

export const create = async (run: Run): Promise<void> => {
  const file = await fileOfNew(run, requireArgument(run, 0, 'The name'));
  await writeWhole(file, '');
  run.cli.out.say('Write the SQL into it, then apply it with `plinth db push`:');
  run.cli.out.data({ file }, shownPath(run, file));
};

type State = 'applied' | 'pending' | 'changed' | 'only there';

export interface Standing {
  readonly name: string;
  readonly state: State;
}

export const standings = (local: readonly Migration[], applied: readonly Applied[]): Standing[] => {
  const there = new Map(applied.map(({ name, checksum }) => [name, checksum]));
  const here = new Set(local.map(({ name }) => name));
  const stateOf = ({ name, checksum }: Migration): State => {
    const known = there.get(name);
    if (known === undefined) return 'pending';
    return known === checksum ? 'applied' : 'changed';
  };
  return [
    ...local.map((migration) => ({ name: migration.name, state: stateOf(migration) })),
    ...applied.filter(({ name }) => !here.has(name)).map(({ name }) => ({ name, state: 'only there' as const })),
  ].toSorted((a, b) => (a.name < b.name ? -1 : 1));
};

const changed = (names: readonly string[]): Failure =>
  new Failure(exits.conflict, 'migration_changed', `Changed after they were applied: ${names.join(', ')}.`, {
    details: { migrations: names },
    hint: 'Leave applied migrations as they are, and put the change into a new one.',
  });

export const requireUnchanged = (all: readonly Standing[]): void => {
  const names = all.filter(({ state }) => state === 'changed').map(({ name }) => name);
  if (names.length > 0) throw changed(names);
};

/** One request: the platform takes bodies of 6 MB. */
const maxBatchBytes = 3_000_000;
const maxBatch = 500;
const pushTimeoutMs = 600_000;

const batchesOf = (pending: readonly Migration[]): Migration[][] => {
  const batches: Migration[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const migration of pending) {
    // JSON writes some characters as two.
    const bytes = Buffer.byteLength(JSON.stringify(migration.sql));
    const last = batches.at(-1);
    if (last === undefined || size + bytes > maxBatchBytes || last.length >= maxBatch) {
      batches.push([migration]);
      size = bytes;
    } else {
      last.push(migration);
      size += bytes;
    }
  }
  return batches;
};

type Pushed = Operations['POST /projects/{project_id}/db/migrations']['answer'];

interface StepDetails {
  readonly migration?: string;
  readonly position?: number | null;
  readonly line?: number | null;
  readonly detail?: string | null;
  readonly applied?: readonly string[];
}

/** The failure with the line of the file and a caret below the place. */
export const located = (
  run: Run,
  error: unknown,
  migrations: readonly Migration[],
  end = 'Nothing of this migration was applied.',
): unknown => {
  if (!(error instanceof Failure)) return error;
  const details = (error.body.details ?? {}) as StepDetails;
  const migration = migrations.find(({ name }) => name === details.migration);
  if (migration === undefined) return error;
  const place = sqlPlace(migration.sql, details.position ?? null);
  const where = `${shownPath(run, migration.file)}${place === null ? '' : `:${place.line}`}`;
  const lines = [
    `${where}: ${clean(error.message)}`,
    ...(details.detail ? [`  ${clean(details.detail)}`] : []),
    ...(place === null ? [] : [place.text]),
    end,
  ];
  return new Failure(error.exit, error.body.code, lines.join('\n'), { ...error.body, details });
};

const send = async (run: Run, project: InProject, batch: readonly Migration[]): Promise<Pushed> => {
  const isDry = isOn(run, 'dryRun');
  const migrations = batch.map(({ name, sql, checksum }) => ({ name, sql, checksum }));
  const body = { migrations, dry_run: isDry };
  // A migration that was applied is not applied again.
  const request = { method: 'POST', body, timeoutMs: pushTimeoutMs, isIdempotent: true };
  return call<Pushed>(project, `${project.path}/db/migrations`, request).catch((error: unknown) => {
    throw located(run, error, batch);
  });
};

const noteDone = (run: Run, names: readonly string[], isDry: boolean): void => {
  for (const name of names) run.cli.out.say(`${isDry ? 'would apply' : 'applied'}  ${cleanLine(name)}`);
};

const appliedBefore = (error: unknown): readonly string[] => {
  const details = error instanceof Failure ? (error.body.details as StepDetails | null | undefined) : null;
  return details?.applied ?? [];
};

const warnOfOrder = (run: Run, pending: readonly Migration[], applied: readonly Applied[]): void => {
  const last =
    applied
      .map(({ name }) => name)
      .toSorted()
      .at(-1) ?? '';
  for (const { name } of pending.filter((one) => one.name < last)) {
    run.cli.out.warn(`${cleanLine(name)} is older than ${cleanLine(last)}, which was applied before.`);
  }
};

/** Applies what is pending, in order; a dry run is one transaction that is rolled back. */
export const push = async (run: Run): Promise<void> => {
  const { out } = run.cli;
  const project = await inProject(run);
  const [local, applied] = await Promise.all([localMigrations(run), appliedMigrations(project)]);
  const all = standings(local, applied);
  requireUnchanged(all);
  const pendingNames = new Set(all.filter(({ state }) => state === 'pending').map(({ name }) => name));
  const pending = local.filter(({ name }) => pendingNames.has(name));
  warnOfOrder(run, pending, applied);
  const isDry = isOn(run, 'dryRun');
  const batches = batchesOf(pending);
  if (isDry && batches.length > 1) throw usage('There is too much pending for one dry run: push some of it first.');
  const done: string[] = [];
  for (const batch of batches) {
    const { applied: now, skipped } = await send(run, project, batch).catch((error: unknown) => {
      noteDone(run, appliedBefore(error), isDry);
      throw error;
    });
    noteDone(run, now, isDry);
    for (const name of skipped) out.say(`applied by somebody else meanwhile  ${cleanLine(name)}`);
    done.push(...now);
  }
  if (pending.length === 0) out.say('Everything is applied.');
  if (out.isJson) out.data({ applied: done, dry_run: isDry }, '');
};
