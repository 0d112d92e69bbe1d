import { existsSync } from 'node:fs';
import path from 'node:path';
import {
  type Register,
  type Run,
  call,
  confirmFirst,
  inFolder,
  inProject,
  requireArgument,
  shownPath,
  textOption,
} from '../cli.ts';
import { Failure, exits, notFound, usage } from '../errors.ts';
import { readText, writeWhole } from '../files.ts';
import { send } from '../http.ts';
import { clean, cleanLine, jsonText } from '../text.ts';
import { deploy } from './functions/deploy.ts';
import { findFunction, listFunctions } from './functions/find.ts';
import { requireSlug } from './functions/folder.ts';
import { serve } from './functions/serve.ts';
import { testFunctions } from './functions/test.ts';
import { addLogOptions, showLogs } from './logs.ts';
import type { Schemas } from '../types.ts';

const templates: Readonly<Record<string, readonly [string, string]>> = {
  javascript: ['index.js', "export const handler = (payload) => ({ hello: payload?.name ?? 'world' });\n"],
  typescript: [
    'index.ts',
    "interface Payload {\n  readonly name?: string;\n}\n\nexport const handler = (payload: Payload | null) => ({ hello: payload?.name ?? 'world' });\n",
  ],
  python: ['main.py', 'def handler(payload, sdk):\n    return {"hello": (payload or {}).get("name", "world")}\n'],
};

const create = async (run: Run): Promise<void> => {
  const slug = requireSlug(requireArgument(run, 0, 'The name'));
  const language = textOption(run, 'language') ?? 'typescript';
  const template = Object.hasOwn(templates, language) ? templates[language] : undefined;
  if (template === undefined) throw usage(`--language must be one of ${Object.keys(templates).join(', ')}.`);
  const folder = inFolder(run, 'functions', slug);
  if (existsSync(folder)) throw new Failure(exits.conflict, 'conflict', `${shownPath(run, folder)} is there already.`);
  const [name, text] = template;
  await writeWhole(path.join(folder, name), text);
  await writeWhole(
    path.join(folder, 'plinth.json'),
    `${JSON.stringify({ language, timeout_ms: 10_000, memory_mb: 256 }, undefined, 2)}\n`,
  );
  run.cli.out.say(`Made ${shownPath(run, folder)}. Deploy it with \`plinth functions deploy ${slug}\`.`);
  if (run.cli.out.isJson) run.cli.out.data({ slug, language, folder }, '');
};

const list = async (run: Run): Promise<void> => {
  const functions = await listFunctions(await inProject(run));
  const rows = functions.map(({ slug, language, access, version, updated_at: updated }) => ({
    slug,
    language,
    access,
    version,
    updated,
  }));
  run.cli.out.table(rows, functions, 'There are no functions.');
};

const readInput = async (run: Run): Promise<string> => {
  let text = '';
  for await (const chunk of run.cli.terminal.input) text += String(chunk);
  return text;
};

/** `--payload`: JSON, `@file`, or `-` for standard input. */
const payloadOf = async (run: Run): Promise<unknown> => {
  const given = textOption(run, 'payload');
  if (given === undefined) return null;
  if (given === '') throw usage('--payload must not be empty.');
  const read = (): Promise<string> =>
    given === '-' ? readInput(run) : readText(path.resolve(run.cli.cwd, given.slice(1)));
  const text = given === '-' || given.startsWith('@') ? await read() : given;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw usage('--payload must be JSON, @file or -.', 'Text needs its quotes: --payload \'"text"\'');
  }
};

interface Invoked {
  readonly status: string;
  readonly result?: unknown;
  readonly duration_ms: number;
  readonly invocation_id: string;
  readonly error?: { readonly name: string; readonly message: string; readonly stack?: string } | null;
  readonly logs?: readonly { readonly level: string; readonly message: string }[];
  readonly job_id?: string;
}

const invokeTimeoutMs = 330_000;

const invoke = async (run: Run): Promise<void> => {
  const { out } = run.cli;
  const slug = requireArgument(run, 0, 'The function');
  const payload = await payloadOf(run);
  const project = await inProject(run);
  const { id } = await findFunction(project, slug);
  const answer = await call<Invoked>(project, `${project.path}/functions/${id}/invoke`, {
    method: 'POST',
    body: { payload },
    headers: { prefer: 'wait=60' },
    timeoutMs: invokeTimeoutMs,
  });
  if (answer.job_id !== undefined) {
    out.say(`It goes on as the job ${cleanLine(answer.job_id)}: plinth jobs show ${cleanLine(answer.job_id)}`);
    return out.isJson ? out.data(answer, '') : undefined;
  }
  for (const { level, message } of answer.logs ?? []) out.say(`${level.padEnd(5)} ${clean(message)}`);
  if (answer.status === 'success') return out.data(answer, jsonText(answer.result ?? null, 2));
  if (out.isJson) out.data(answer, '');
  const reason = answer.error ? `${answer.error.name}: ${answer.error.message}` : `The run ended as ${answer.status}.`;
  throw new Failure(exits.failed, answer.status, reason, { details: { invocation_id: answer.invocation_id } });
};

const remove = async (run: Run): Promise<void> => {
  const slug = requireArgument(run, 0, 'The function');
  const project = await inProject(run);
  const { id, version } = await findFunction(project, slug);
  await confirmFirst(run, `The function ${cleanLine(slug)} and its ${version} versions will be deleted.`);
  await send(project, `${project.path}/functions/${id}`, { method: 'DELETE' });
  run.cli.out.say('Deleted. The folder here is left as it is.');
  if (run.cli.out.isJson) run.cli.out.data({ slug, deleted: true }, '');
};

type Version = Schemas['FunctionVersion'];

const rollback = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const slug = requireArgument(run, 0, 'The function');
  const { id } = await findFunction(project, slug);
  const where = `${project.path}/functions/${id}/versions`;
  const wanted =
    run.args[1] ??
    String((await call<{ versions: Version[] }>(project, `${where}?limit=1`)).versions[0]?.version ?? '');
  if (wanted === '') throw notFound(`${cleanLine(slug)} has no earlier version.`);
  if (!/^[1-9]\d{0,8}$/.test(wanted)) throw usage('The version must be a number.');
  const done = await call<{ version: number; rolled_back_to: number }>(project, `${where}/${wanted}/rollback`, {
    method: 'POST',
    body: {},
  });
  run.cli.out.say(`${cleanLine(slug)} is version ${done.rolled_back_to} again, as version ${done.version}.`);
  if (run.cli.out.isJson) run.cli.out.data({ slug, version: done.version, rolled_back_to: done.rolled_back_to }, '');
};

export const registerFunctions: Register = (program, act) => {
  const functions = program.command('functions').description('code that runs on the platform');
  functions
    .command('new <name>')
    .description('make a folder plinth/functions/<name> with a function to begin with')
    .option('--language <language>', 'javascript, typescript or python', 'typescript')
    .action(act(create));
  functions
    .command('deploy [names...]')
    .description('deploy the functions of plinth/functions; those that did not change are skipped')
    .option('--prune', 'delete functions of the project that have no folder here, too')
    .action(act(deploy));
  functions
    .command('serve <name>')
    .description('deploy each change of a folder as <name>-dev and print its log, until Ctrl-C')
    .action(act(serve));
  functions
    .command('test [names...]')
    .description(
      'run the tests beside functions (*.test.ts) against the platform: `invoke(payload)` calls the function',
    )
    .action(act(testFunctions));
  functions.command('list').description('list the functions of the project').action(act(list));
  functions
    .command('invoke <name>')
    .description('call a function and print its result')
    .option('-d, --payload <json>', 'JSON, @file, or - for standard input')
    .action(act(invoke));
  addLogOptions(functions.command('logs [name]').description('print the logs of a function, or of all')).action(
    act((run) => showLogs(run, run.args[0])),
  );
  functions.command('delete <name>').description('delete a function of the project').action(act(remove));
  functions
    .command('rollback <name> [version]')
    .description('make an earlier version the present one; left out: the last')
    .action(act(rollback));
};
