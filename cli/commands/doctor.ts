import { stat } from 'node:fs/promises';
import { type Register, type Run, call, inProject, signedInTarget, targetOf, urlOf } from '../cli.ts';
import { credentialsFile } from '../credentials.ts';
import { Failure, exits, systemCode } from '../errors.ts';
import { readLink } from '../link.ts';
import { clean } from '../text.ts';
import { localMigrations } from './database/migrations.ts';

interface Finding {
  readonly check: string;
  readonly ok: boolean;
  readonly message: string;
  /** The command that mends it. */
  readonly fix: string | null;
}

type Check = readonly [name: string, work: (run: Run) => Promise<string>, fix: string | null];

const leastNode = 20;

const nodeVersion = (): Promise<string> => {
  const major = Number(process.versions.node.split('.', 1)[0]);
  if (major >= leastNode) return Promise.resolve(process.versions.node);
  return Promise.reject(new Error(`Node ${process.versions.node} is older than ${leastNode}.`));
};

/** Only the owner may read what signs in. */
const credentials = async ({ cli }: Run): Promise<string> => {
  if (cli.env['PLINTH_ACCESS_TOKEN']) return 'PLINTH_ACCESS_TOKEN is used';
  const file = credentialsFile(cli.env);
  try {
    const { mode } = await stat(file);
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) throw new Error(`${file} can be read by others.`);
    return file;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') throw new Error('Nobody is signed in.', { cause: error });
    throw error;
  }
};

const platform = async (run: Run): Promise<string> => {
  const target = targetOf(run.cli, await urlOf(run));
  await call(target, '/healthz', { timeoutMs: 10_000 });
  return target.url;
};

const ready = async (run: Run): Promise<string> => {
  const target = targetOf(run.cli, await urlOf(run));
  await call(target, '/readyz', { timeoutMs: 10_000 });
  return 'everything that it needs answers';
};

const signedIn = async (run: Run): Promise<string> =>
  (await call<{ email: string }>(await signedInTarget(run), '/auth/me')).email;

const linked = async (run: Run): Promise<string> => {
  const link = await readLink(run.cli.cwd);
  if (link === undefined && !run.options.project && !run.cli.env['PLINTH_PROJECT'])
    throw new Error('This folder is not linked.');
  return link?.name ?? 'named by hand';
};

const project = async (run: Run): Promise<string> => {
  const there = await inProject(run);
  const found = await call<{ status: string; name: string }>(there, there.path);
  if (found.status !== 'active') throw new Error(`The project is ${found.status}.`);
  return found.name;
};

const migrations = async (run: Run): Promise<string> => `${(await localMigrations(run)).length} migrations`;

const checks: readonly Check[] = [
  ['node', nodeVersion, 'Install Node 20 or newer.'],
  ['platform', platform, 'plinth login --url <address>'],
  ['ready', ready, null],
  ['credentials', credentials, 'plinth login'],
  ['signed in', signedIn, 'plinth login'],
  ['linked', linked, 'plinth link'],
  ['project', project, 'plinth link'],
  ['migrations', migrations, null],
];

const carryOut = async (run: Run, [name, work, fix]: Check): Promise<Finding> => {
  try {
    return { check: name, ok: true, message: await work(run), fix: null };
  } catch (error) {
    if (error instanceof Failure && error.exit === exits.interrupted) throw error;
    const message = error instanceof Error ? error.message : String(error);
    return { check: name, ok: false, message, fix };
  }
};

const doctor = async (run: Run): Promise<void> => {
  const { out } = run.cli;
  const findings: Finding[] = [];
  for (const check of checks) findings.push(await carryOut(run, check));
  const width = Math.max(...checks.map(([name]) => name.length));
  const lines = findings.map(({ check, ok, message, fix }) => {
    const line = `${ok ? 'ok   ' : out.red('wrong')}  ${check.padEnd(width)}  ${clean(message)}`;
    return fix === null ? line : `${line}\n       ${' '.repeat(width)}  ${fix}`;
  });
  out.data(findings, lines.join('\n'));
  const wrong = findings.filter(({ ok }) => !ok).length;
  if (wrong > 0) throw new Failure(exits.failed, 'unwell', `${wrong} of ${findings.length} checks failed.`);
};

export const registerDoctor: Register = (program, act) => {
  program.command('doctor').description('say what is wrong here, and the command that mends it').action(act(doctor));
};
