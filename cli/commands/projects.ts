import { platform } from 'node:os';
import { spawn } from 'node:child_process';
import {
  type Project,
  type Register,
  type Run,
  call,
  confirmFirst,
  findProject,
  inProject,
  listAll,
  requireArgument,
  shownPath,
  signedInTarget,
  textOption,
} from '../cli.ts';
import { notFound, usage } from '../errors.ts';
import { type Target, send } from '../http.ts';
import { linkedRoot, writeLink } from '../link.ts';
import { ask, isInteractive } from '../prompts.ts';
import { cleanLine } from '../text.ts';
import type { Operations } from '../types.ts';

const choose = async ({ cli }: Run, target: Target): Promise<Project> => {
  const projects = await listAll<Project>(target, '/projects', 'projects');
  const [first] = projects;
  if (first === undefined) throw notFound('You have no project.', 'Make one with `plinth projects create <name>`.');
  if (projects.length === 1) return first;
  if (!isInteractive(cli.terminal)) throw usage('Name the project: `plinth link <id, ref or slug>`.');
  projects.forEach(({ name, ref }, index) => process.stderr.write(`${index + 1}  ${cleanLine(name)}  ${ref}\n`));
  const answer = Number(await ask(cli.terminal, 'Which one? '));
  const chosen = projects[answer - 1];
  if (chosen === undefined) throw usage(`Answer with a number from 1 to ${projects.length}.`);
  return chosen;
};

const link = async (run: Run): Promise<void> => {
  const { cli, args, options } = run;
  const target = await signedInTarget(run);
  const wanted = args[0] ?? options.project ?? (cli.env['PLINTH_PROJECT'] || undefined);
  const { id, ref, name } = wanted === undefined ? await choose(run, target) : await findProject(target, wanted);
  const file = await writeLink(linkedRoot(cli.cwd) ?? cli.cwd, { url: target.url, project_id: id, ref, name });
  cli.out.say(`Linked to ${cleanLine(name)} (${ref}) by ${shownPath(run, file)}.`);
  if (cli.out.isJson) cli.out.data({ project_id: id, ref, name, file }, '');
};

type Usage = Operations['GET /projects/{project_id}/usage']['answer'];

const status = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const [found, usageNow, user] = await Promise.all([
    call<Project>(project, project.path),
    call<Usage>(project, `${project.path}/usage`),
    call<{ email: string }>(project, '/auth/me'),
  ]);
  const facts: (readonly [string, string])[] = [
    ['platform', project.url],
    ['signed in', user.email],
    ['project', `${found.name} (${found.ref})`],
    ['status', `${found.status}, plan ${found.plan}`],
    ['address', found.rest_url],
    ...Object.entries(usageNow).map(
      ([name, { used, limit }]) =>
        [name.replaceAll('_', ' '), `${used}${limit === null ? '' : ` of ${limit}`}`] as const,
    ),
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  const text = facts.map(([name, value]) => `${run.cli.out.dim(name.padEnd(width))}  ${cleanLine(value)}`).join('\n');
  run.cli.out.data({ url: project.url, user, project: found, usage: usageNow }, text);
};

const list = async (run: Run): Promise<void> => {
  const target = await signedInTarget(run);
  const projects = await listAll<Project>(target, '/projects', 'projects');
  const rows = projects.map(({ name, slug, ref, plan, status: now }) => ({ name, slug, ref, plan, status: now }));
  run.cli.out.table(rows, projects, 'There are no projects. Make one with `plinth projects create <name>`.');
};

const create = async (run: Run): Promise<void> => {
  const target = await signedInTarget(run);
  const [slug, plan, org] = ['slug', 'plan', 'org'].map((name) => textOption(run, name));
  const body = {
    name: requireArgument(run, 0, 'The name'),
    ...(slug !== undefined && { slug }),
    ...(plan !== undefined && { plan }),
    ...(org !== undefined && { org_id: org }),
  };
  type Made = Project & { api_key: string; publishable_key: string };
  const made = await call<Made>(target, '/projects', { method: 'POST', body });
  const lines = [
    `PLINTH_URL=${made.rest_url}`,
    `PLINTH_API_KEY=${made.api_key}`,
    `PLINTH_PUBLISHABLE_KEY=${made.publishable_key}`,
  ];
  run.cli.out.say(`Made ${cleanLine(made.name)} (${made.ref}). Its keys are shown this once:`);
  run.cli.out.data(made, lines.join('\n'));
};

const remove = async (run: Run): Promise<void> => {
  const target = await signedInTarget(run);
  const { id, name, ref } = await findProject(target, requireArgument(run, 0, 'The project'));
  await confirmFirst(
    run,
    `The project ${cleanLine(name)} (${ref}), its database, functions and files will be deleted.`,
  );
  await send(target, `/projects/${id}`, { method: 'DELETE' });
  run.cli.out.say('Deleted. The database is kept for 7 days.');
  if (run.cli.out.isJson) run.cli.out.data({ id, deleted: true }, '');
};

const openers: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
};

/** Prints the address, too: there may be no browser. */
const open = async (run: Run): Promise<void> => {
  const { url } = await signedInTarget(run);
  const address = `${url}/docs`;
  run.cli.out.data({ url: address }, address);
  if (!isInteractive(run.cli.terminal)) return;
  const [program, ...before] = openers[platform()] ?? ['xdg-open'];
  const child = spawn(program, [...before, address], { stdio: 'ignore', detached: true });
  child.on('error', () => run.cli.out.say('There is no browser here.'));
  child.unref();
};

export const registerProjects: Register = (program, act) => {
  program
    .command('link [project]')
    .description('tie this folder to a project, by its id, ref or slug')
    .action(act(link));
  program.command('status').description('print project, plan and use').action(act(status));
  const projects = program.command('projects').description('your projects');
  projects.command('list', { isDefault: true }).description('list your projects').action(act(list));
  projects
    .command('create <name>')
    .description('make a project; its keys are printed once')
    .option('--slug <slug>', 'left out: made from the name')
    .option('--plan <plan>', 'free, pro or enterprise')
    .option('--org <id>', 'organization; left out: your own')
    .action(act(create));
  projects.command('delete <project>').description('delete a project').action(act(remove));
  program.command('open').description('open the platform’s API reference in the browser').action(act(open));
};
