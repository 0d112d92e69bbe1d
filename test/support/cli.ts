import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestFn } from 'ava';
import type { TestProject, TestUser } from './client.ts';
import { makeToken } from './personal-token.ts';
import type { TestPlatform } from './platform.ts';

interface CliAnswer {
  /** The exit code; null when a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface CliOptions {
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Called with each piece of the output. */
  readonly onOutput?: (text: string, kill: (signal: NodeJS.Signals) => void) => void;
}

/** A folder of a developer, with a home of its own. */
export interface Workbench {
  readonly folder: string;
  readonly home: string;
  readonly run: (args: readonly string[], options?: CliOptions) => Promise<CliAnswer>;
  /** Runs it with `--json`. */
  readonly json: (args: readonly string[], options?: CliOptions) => Promise<CliAnswer & { readonly value: any }>; // oxlint-disable-line typescript/no-explicit-any -- answers of every shape
  readonly write: (file: string, text: string | Buffer) => Promise<string>;
}

const entry = path.resolve(import.meta.dirname, '../../cli/plinth.mjs');

/** Settings of the machine that runs the tests must not be those of the developer. */
const ownSettings = /^(?:PLINTH_|XDG_|NO_COLOR|FORCE_COLOR|NODE_OPTIONS)/;

const clearEnv = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !ownSettings.test(name)));

const runCli = (
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { cwd, input, onOutput }: CliOptions,
): Promise<CliAnswer> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [entry, ...args], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
    const pieces = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (piece: Buffer) => {
        pieces[name].push(piece);
        onOutput?.(piece.toString(), (signal) => child.kill(signal));
      });
    }
    child.on('error', reject);
    child.on('close', (code) =>
      resolve({
        code,
        stdout: Buffer.concat(pieces.stdout).toString(),
        stderr: Buffer.concat(pieces.stderr).toString(),
      }),
    );
    // It may end before it has read its input.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });

/** @param env what is set for each command */
export const openWorkbench = async (env: Readonly<Record<string, string>> = {}): Promise<Workbench> => {
  const base = await mkdtemp(path.join(tmpdir(), 'plinth cli ü-'));
  const [folder, home] = [path.join(base, 'mein projekt'), path.join(base, 'home')];
  await Promise.all([mkdir(folder), mkdir(home)]);
  const run: Workbench['run'] = (args, options = {}) => {
    const own = Object.entries({ ...clearEnv(), HOME: home, ...env, ...options.env });
    const given = Object.fromEntries(own.filter(([, value]) => value !== undefined));
    return runCli(args, given, { cwd: folder, ...options });
  };
  return {
    folder,
    home,
    run,
    json: async (args, options) => {
      const answer = await run([...args, '--json'], options);
      const text = answer.stdout || answer.stderr;
      return { ...answer, value: text === '' ? undefined : (JSON.parse(text) as unknown) };
    },
    write: async (file, text) => {
      const whole = path.join(folder, file);
      await mkdir(path.dirname(whole), { recursive: true });
      await writeFile(whole, text);
      return whole;
    },
  };
};

const closeWorkbench = ({ folder }: Workbench): Promise<void> =>
  rm(path.dirname(folder), { recursive: true, force: true });

/** A workbench with a token of the user, linked to the project. */
export const openLinked = async (
  { base, client }: Pick<TestPlatform, 'base' | 'client'>,
  user: TestUser,
  project: TestProject,
): Promise<Workbench> => {
  const { token } = await makeToken(client, user, { scopes: ['admin'] });
  const bench = await openWorkbench({ PLINTH_URL: base, PLINTH_ACCESS_TOKEN: token });
  const linked = await bench.run(['link', project.ref]);
  if (linked.code !== 0) throw new Error(`linking failed: ${linked.stderr}`);
  return bench;
};

/** Workbenches that are removed when the file's tests have ended. */
export const useWorkbenches = (test: TestFn): ((opening: Promise<Workbench>) => Promise<Workbench>) => {
  const opened: Workbench[] = [];
  test.after.always('the folders are removed', () => Promise.all(opened.map(closeWorkbench)));
  return async (opening) => {
    const bench = await opening;
    opened.push(bench);
    return bench;
  };
};
