import { type Register, type Run, call, inProject, listAll, requireArgument, textOption } from '../cli.ts';
import { usage } from '../errors.ts';
import { clean, cleanLine, jsonText } from '../text.ts';
import type { Schemas } from '../types.ts';

type Flag = Schemas['ListedFlag'];

const inEnvironment = (run: Run): string => {
  const environment = textOption(run, 'environment');
  return environment === undefined ? '' : `?environment=${encodeURIComponent(environment)}`;
};

const list = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const flags = await listAll<Flag>(project, `${project.path}/flags${inEnvironment(run)}`, 'flags');
  const rows = flags.map(({ key, environment, flag_type: type, is_enabled: enabled, value }) => ({
    key,
    environment,
    type,
    enabled,
    value: JSON.stringify(value),
  }));
  run.cli.out.table(rows, flags, 'There are no flags.');
};

const flagPath = async (run: Run) => {
  const project = await inProject(run);
  const key = encodeURIComponent(requireArgument(run, 0, 'The flag'));
  return { project, path: `${project.path}/flags/${key}` };
};

const show = async (run: Run): Promise<void> => {
  const { project, path } = await flagPath(run);
  const flag = await call<Flag>(project, `${path}${inEnvironment(run)}`);
  run.cli.out.data(flag, clean(jsonText(flag, 2)));
};

const patch = async (run: Run, change: Readonly<Record<string, unknown>>): Promise<void> => {
  const { project, path } = await flagPath(run);
  const flag = await call<Flag>(project, `${path}${inEnvironment(run)}`, { method: 'PATCH', body: change });
  const state = `${flag.is_enabled ? 'enabled' : 'disabled'}, value ${cleanLine(JSON.stringify(flag.value))}`;
  run.cli.out.say(`${cleanLine(flag.key)} in ${cleanLine(flag.environment)} is ${state}, version ${flag.version}.`);
  if (run.cli.out.isJson) run.cli.out.data(flag, '');
};

const set = (run: Run): Promise<void> => {
  const given = requireArgument(run, 1, 'The value');
  let value: unknown;
  try {
    value = JSON.parse(given);
  } catch {
    throw usage('The value must be JSON.', 'Text needs its quotes: \'"blue"\'');
  }
  return patch(run, { value });
};

export const registerFlags: Register = (program, act) => {
  const flags = program.command('flags').description('feature flags');
  const where = ['-e, --environment <name>', 'left out: production'] as const;
  flags
    .command('list')
    .description('list the flags')
    .option('-e, --environment <name>', 'left out: all')
    .action(act(list));
  flags
    .command('show <key>')
    .description('print a flag with its rules')
    .option(...where)
    .action(act(show));
  flags
    .command('enable <key>')
    .description('turn a flag on')
    .option(...where)
    .action(act((run) => patch(run, { is_enabled: true })));
  flags
    .command('disable <key>')
    .description('turn a flag off')
    .option(...where)
    .action(act((run) => patch(run, { is_enabled: false })));
  flags
    .command('set <key> <value>')
    .description('change the value, which is JSON')
    .option(...where)
    .action(act(set));
};
