import {
  type InProject,
  type Register,
  type Run,
  call,
  confirmFirst,
  inProject,
  isOn,
  numberOption,
  requireArgument,
  textOption,
} from '../cli.ts';
import { usage } from '../errors.ts';
import { clean, jsonText } from '../text.ts';
import { findFunction } from './functions/find.ts';
import { sinceOf } from './logs.ts';
import type { Schemas } from '../types.ts';

type Job = Schemas['ListedJob'];

const jobPath = (project: InProject, run: Run): string =>
  `${project.path}/jobs/${encodeURIComponent(requireArgument(run, 0, 'The job'))}`;

const list = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const limit = numberOption(run, 'limit', 50);
  if (limit < 1 || limit > 200) throw usage('--limit must be from 1 to 200.');
  const query = new URLSearchParams({ limit: String(limit) });
  for (const name of ['status', 'type']) {
    const value = textOption(run, name);
    if (value !== undefined) query.set(name, value);
  }
  const slug = textOption(run, 'function');
  if (slug !== undefined) query.set('function_id', (await findFunction(project, slug)).id);
  const { jobs } = await call<{ jobs: Job[] }>(project, `${project.path}/jobs?${query.toString()}`);
  const rows = jobs.map(
    ({ id, type, status, attempt, max_attempts: max, error, waiting_reason: waits, created_at: created }) => ({
      id,
      type,
      status,
      attempt: `${attempt}/${max}`,
      why: error?.code ?? waits,
      created,
    }),
  );
  run.cli.out.table(rows, jobs, 'There are no such jobs.');
};

const show = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const job = await call<Job>(project, jobPath(project, run));
  run.cli.out.data(job, clean(jsonText(job, 2)));
};

type Changed = Schemas['BulkResult'];

type Action = 'retry' | 'cancel';

const changeOne = async (run: Run, project: InProject, action: Action): Promise<void> => {
  const job = await call<Job>(project, `${jobPath(project, run)}/${action}`, { method: 'POST', body: {} });
  run.cli.out.say(`The job is ${job.status}.`);
  if (run.cli.out.isJson) run.cli.out.data(job, '');
};

/** @throws {Failure} `usage` for a filter that would be all jobs */
const filterOf = async (run: Run, project: InProject): Promise<Record<string, string>> => {
  const [status, type, since, slug] = ['status', 'type', 'since', 'function'].map((name) => textOption(run, name));
  const filter = {
    ...(status !== undefined && { status }),
    ...(type !== undefined && { type }),
    ...(since !== undefined && { since: sinceOf(since, Date.now()) }),
    ...(slug !== undefined && { function_id: (await findFunction(project, slug)).id }),
  };
  if (Object.keys(filter).length > 0) return filter;
  throw usage('Name a job, or choose some with --status, --type, --function or --since.');
};

const changeMany = async (run: Run, project: InProject, action: Action): Promise<void> => {
  const filter = await filterOf(run, project);
  const send = (isDry: boolean): Promise<Changed> =>
    call(project, `${project.path}/jobs/${action}`, { method: 'POST', body: { filter, dry_run: isDry } });
  const { matched } = await send(true);
  const changesNothing = isOn(run, 'dryRun') || matched === 0;
  if (!changesNothing)
    await confirmFirst(run, `${matched} jobs will be ${action === 'retry' ? 'run again' : 'cancelled'}.`);
  const done = changesNothing ? { matched, changed: 0 } : await send(false);
  run.cli.out.say(`${done.matched} match, ${done.changed} changed.`);
  if (run.cli.out.isJson) run.cli.out.data(done, '');
};

/** One job by its id, or many by filter. */
const change = async (run: Run, action: Action): Promise<void> => {
  const project = await inProject(run);
  await (run.args.length > 0 ? changeOne : changeMany)(run, project, action);
};

export const registerJobs: Register = (program, act) => {
  const jobs = program.command('jobs').description('work of the project that is queued, runs or has ended');
  jobs
    .command('list')
    .description('list jobs, the newest first')
    .option('--status <status>', 'queued, running, succeeded, failed, cancelled, expired or dead')
    .option('--type <type>', 'such as function.invoke')
    .option('--function <name>', 'of one function')
    .option('-n, --limit <number>', 'at most so many', '50')
    .action(act(list));
  jobs.command('show <id>').description('print a job with its result').action(act(show));
  for (const [action, what] of [
    ['retry', 'run a job again, or all that match'],
    ['cancel', 'cancel a job, or all that match'],
  ] as const) {
    jobs
      .command(`${action} [id]`)
      .description(what)
      .option('--status <status>', 'those in this state')
      .option('--type <type>', 'those of this type')
      .option('--function <name>', 'those of one function')
      .option('--since <time>', 'those made since, such as 1h')
      .option('--dry-run', 'count them only')
      .action(act((run) => change(run, action)));
  }
};
