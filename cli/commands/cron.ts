import {
  type InProject,
  type Register,
  type Run,
  call,
  confirmFirst,
  inProject,
  listAll,
  requireArgument,
} from '../cli.ts';
import { notFound } from '../errors.ts';
import { send } from '../http.ts';
import { cleanLine, didYouMean } from '../text.ts';
import type { Schemas } from '../types.ts';

type Schedule = Schemas['Schedule'];

type CronRun = Schemas['CronRun'];

const listSchedules = (project: InProject): Promise<Schedule[]> =>
  listAll<Schedule>(project, `${project.path}/cron`, 'schedules');

const find = async (project: InProject, wanted: string): Promise<Schedule> => {
  const all = await listSchedules(project);
  const found = all.find(({ id, name }) => id === wanted || name === wanted);
  if (found) return found;
  const names = all.map(({ name }) => name);
  throw notFound(
    `There is no schedule ${cleanLine(wanted)}.${didYouMean(wanted, names)}`,
    'List them with `plinth cron list`.',
  );
};

const list = async (run: Run): Promise<void> => {
  const all = await listSchedules(await inProject(run));
  const rows = all.map(({ name, schedule, timezone, enabled, target, next_run_at: next, last_run: last }) => ({
    name,
    schedule: `${schedule} ${timezone}`,
    target: target.type,
    enabled,
    next,
    last: last?.status,
  }));
  run.cli.out.table(rows, all, 'There are no schedules.');
};

const runs = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const { id } = await find(project, requireArgument(run, 0, 'The schedule'));
  const { runs: found } = await call<{ runs: CronRun[] }>(project, `${project.path}/cron/${id}/runs?limit=50`);
  const rows = found.map(({ fire_at: fire, status, duration_ms: ms, reason, job_id: job }) => ({
    fire,
    status,
    ms,
    reason,
    job,
  }));
  run.cli.out.table(rows, found, 'It has not run yet.');
};

const fire = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const { id, name } = await find(project, requireArgument(run, 0, 'The schedule'));
  const answer = await call<unknown>(project, `${project.path}/cron/${id}/run`, { method: 'POST', body: {} });
  run.cli.out.say(`${cleanLine(name)} runs now.`);
  if (run.cli.out.isJson) run.cli.out.data(answer, '');
};

const setEnabled = async (run: Run, enabled: boolean): Promise<void> => {
  const project = await inProject(run);
  const { id, name } = await find(project, requireArgument(run, 0, 'The schedule'));
  const changed = await call<Schedule>(project, `${project.path}/cron/${id}`, { method: 'PATCH', body: { enabled } });
  run.cli.out.say(`${cleanLine(name)} is ${enabled ? 'enabled' : 'disabled'}.`);
  if (run.cli.out.isJson) run.cli.out.data(changed, '');
};

const remove = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const { id, name, schedule } = await find(project, requireArgument(run, 0, 'The schedule'));
  await confirmFirst(
    run,
    `The schedule ${cleanLine(name)} (${cleanLine(schedule)}) and the list of its runs will be deleted.`,
  );
  await send(project, `${project.path}/cron/${id}`, { method: 'DELETE' });
  run.cli.out.say('Deleted.');
  if (run.cli.out.isJson) run.cli.out.data({ id, deleted: true }, '');
};

export const registerCron: Register = (program, act) => {
  const cron = program
    .command('cron')
    .description('what the project does by the clock; a schedule is named by its name or id');
  cron.command('list').description('list the schedules').action(act(list));
  cron.command('runs <schedule>').description('list the last runs of a schedule').action(act(runs));
  cron.command('run <schedule>').description('run a schedule now').action(act(fire));
  cron
    .command('enable <schedule>')
    .description('let a schedule run again')
    .action(act((run) => setEnabled(run, true)));
  cron
    .command('disable <schedule>')
    .description('stop a schedule')
    .action(act((run) => setEnabled(run, false)));
  cron.command('delete <schedule>').description('delete a schedule').action(act(remove));
};
