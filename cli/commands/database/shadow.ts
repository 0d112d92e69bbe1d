import { type InProject, type Run, isOn } from '../../cli.ts';
import { Failure, exits } from '../../errors.ts';
import { normal } from '../../files.ts';
import { send, textAnswer } from '../../http.ts';
import { type Difference, differencesOf } from './diff/draft.ts';
import { type Migration, located } from './migrations.ts';

const timeoutMs = 300_000;

/** The schema that migrations make in a throw-away database on the platform. */
export const schemaOf = async (run: Run, project: InProject, migrations: readonly Migration[]): Promise<string> => {
  const body = { migrations: migrations.map(({ name, sql }) => ({ name, sql })) };
  const request = { method: 'POST', body, headers: { accept: '*/*' }, timeoutMs };
  const response = await send(project, `${project.path}/db/shadow`, request).catch((error: unknown) => {
    throw located(run, error, migrations, 'It was tried in a throw-away database: nothing of it is kept.');
  });
  return normal(await textAnswer(project, response, 'application/sql'));
};

/** The schema of the project. */
export const presentSchema = async (project: InProject): Promise<string> => {
  const response = await send(project, `${project.path}/db/schema.sql`, { headers: { accept: '*/*' } });
  return normal(await textAnswer(project, response, 'application/sql'));
};

const words: Readonly<Record<Difference['change'], string>> = { added: '+', changed: '~', removed: '-' };
const maxShown = 20;

const drifted = (differences: readonly Difference[]): Failure => {
  const lines = differences.slice(0, maxShown).map(({ change, object }) => `  ${words[change]} ${object}`);
  const more = differences.length > maxShown ? [`  and ${differences.length - maxShown} more`] : [];
  const message = ['The project differs from what its migrations make:', ...lines, ...more].join('\n');
  return new Failure(exits.conflict, 'schema_drift', message, {
    details: { differences },
    hint: 'Draft a migration for it with `plinth db diff --name <name>`.',
  });
};

/**
 * Compares the project with what the migrations make that it has applied.
 * @throws {Failure} `schema_drift`, exit 5
 */
const refuseDrift = async (run: Run, project: InProject, applied: readonly Migration[]): Promise<void> => {
  const [made, present] = await Promise.all([schemaOf(run, project, applied), presentSchema(project)]);
  // The same text is the usual case; another order of columns alone is a difference, too.
  if (made === present) return;
  const differences = differencesOf(made, present);
  if (differences.length > 0) throw drifted(differences);
};

/** A viewer may not make databases, not even those that go at once. */
export const refuseDriftWhereAllowed = async (
  run: Run,
  project: InProject,
  applied: readonly Migration[],
): Promise<boolean> => {
  if (isOn(run, 'fast')) return false;
  try {
    await refuseDrift(run, project, applied);
    return true;
  } catch (error) {
    if (!(error instanceof Failure) || error.body.code !== 'forbidden') throw error;
    run.cli.out.warn(
      'Whether the project differs from its migrations was not looked at: that needs the role developer.',
    );
    return false;
  }
};
