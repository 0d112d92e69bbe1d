import path from 'node:path';
import { type InProject, type Register, type Run, call, inProject, textOption } from '../cli.ts';
import { usage } from '../errors.ts';
import { readText } from '../files.ts';
import { cleanLine } from '../text.ts';
import { findFunction } from './functions/find.ts';
import type { Operations } from '../types.ts';

type EnvAnswer = Operations['GET /projects/{project_id}/env']['answer'];

const name = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

const requireName = (given: string): string => {
  if (!name.test(given)) throw usage(`"${cleanLine(given)}" is not a name of letters, digits and _.`);
  return given;
};

/** Variables of one function with --function, else those that all functions of the project share. */
const pathOf = async (run: Run, project: InProject): Promise<string> => {
  const slug = textOption(run, 'function');
  return slug === undefined
    ? `${project.path}/env`
    : `${project.path}/functions/${(await findFunction(project, slug)).id}`;
};

const change = async (run: Run, vars: Readonly<Record<string, string | null>>): Promise<void> => {
  const project = await inProject(run);
  const { env_vars: now } = await call<EnvAnswer>(project, await pathOf(run, project), {
    method: 'PATCH',
    body: { env_vars: vars },
  });
  const count = Object.keys(vars).length;
  run.cli.out.say(`${count} ${count === 1 ? 'variable' : 'variables'} changed. Runs that start now see it.`);
  if (run.cli.out.isJson) run.cli.out.data({ names: Object.keys(now).toSorted() }, '');
};

const list = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const { env_vars: vars } = await call<EnvAnswer>(project, await pathOf(run, project));
  const names = Object.keys(vars).toSorted();
  run.cli.out.data(names, names.length === 0 ? '' : names.map(cleanLine).join('\n'));
  if (names.length === 0) run.cli.out.say('There are no variables.');
};

const set = async (run: Run): Promise<void> => {
  const entries = run.args.map((given) => {
    const at = given.indexOf('=');
    if (at < 1) throw usage(`Write "${cleanLine(given.slice(0, 40))}" as NAME=VALUE.`);
    return [requireName(given.slice(0, at)), given.slice(at + 1)] as const;
  });
  await change(run, Object.fromEntries(entries));
};

const unset = (run: Run): Promise<void> =>
  change(run, Object.fromEntries(run.args.map((given) => [requireName(given), null])));

const unquoted = (value: string): string => {
  const [quote] = value;
  if ((quote !== '"' && quote !== "'") || !value.endsWith(quote) || value.length < 2) {
    // A comment begins after white space.
    return value.replace(/\s+#.*$/, '').trim();
  }
  const inner = value.slice(1, -1);
  return quote === '"' ? inner.replaceAll(String.raw`\n`, '\n').replaceAll(String.raw`\"`, '"') : inner;
};

/**
 * The lines of a `.env` file.
 * @throws {Failure} `usage` naming the line
 */
export const parseEnv = (text: string, file: string): Record<string, string> => {
  const vars: Record<string, string> = {};
  for (const [index, line] of text.split('\n').entries()) {
    const content = line.trim().replace(/^export\s+/, '');
    if (content === '' || content.startsWith('#')) continue;
    const at = content.indexOf('=');
    if (at < 1 || !name.test(content.slice(0, at).trim())) {
      throw usage(`Line ${index + 1} of ${cleanLine(file)} is not NAME=VALUE.`);
    }
    vars[content.slice(0, at).trim()] = unquoted(content.slice(at + 1).trim());
  }
  return vars;
};

const importFile = async (run: Run): Promise<void> => {
  const file = run.args[0] ?? '';
  const vars = parseEnv(await readText(path.resolve(run.cli.cwd, file)), file);
  if (Object.keys(vars).length === 0) throw usage(`${cleanLine(file)} has no variables.`);
  await change(run, vars);
};

export const registerEnv: Register = (program, act) => {
  const env = program.command('env').description('variables that functions read; nobody can read their values here');
  const one = ['--function <slug>', 'of this function alone; left out: shared by all of the project'] as const;
  env
    .command('list')
    .description('list the names')
    .option(...one)
    .action(act(list));
  env
    .command('set <name=value...>')
    .description('set variables')
    .option(...one)
    .action(act(set));
  env
    .command('unset <name...>')
    .description('remove variables')
    .option(...one)
    .action(act(unset));
  env
    .command('import <file>')
    .description('set the variables of a .env file')
    .option(...one)
    .action(act(importFile));
};
