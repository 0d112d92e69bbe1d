import { type InProject, type Run, inProject } from '../../cli.ts';
import {
  type Migration,
  type Standing,
  appliedMigrations,
  localMigrations,
  requireUnchanged,
  standings,
} from './migrations.ts';
import { refuseDriftWhereAllowed } from './shadow.ts';

/**
 * Compares the project with what its applied migrations make. Where the folder has not all of them, nobody can say.
 * @throws {Failure} `schema_drift`
 */
export const checkDrift = async (
  run: Run,
  project: InProject,
  { local, all }: { readonly local: readonly Migration[]; readonly all: readonly Standing[] },
): Promise<void> => {
  const stateOf = new Map(all.map(({ name, state }) => [name, state]));
  const applied = local.filter(({ name }) => stateOf.get(name) === 'applied');
  if (applied.length === 0) return;
  if (all.some(({ state }) => state === 'only there')) {
    run.cli.out.warn('Some migrations are only there: whether the project differs from them was not looked at.');
    return;
  }
  const isSame = await refuseDriftWhereAllowed(run, project, applied);
  if (isSame) run.cli.out.say('The project is as its migrations make it.');
};

export const status = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const local = await localMigrations(run);
  const all = standings(local, await appliedMigrations(project));
  run.cli.out.table(
    all.map(({ name, state }) => ({ state, name })),
    all,
    'There are no migrations.',
  );
  requireUnchanged(all);
  await checkDrift(run, project, { local, all });
};
