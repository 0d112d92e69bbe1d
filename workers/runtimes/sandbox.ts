import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import type { GuestCommand, GuestFile, SpawnCommand } from './guest.ts';
import { type StrictTools, isShown, strictArguments } from './namespaces.ts';
import type { SandboxLevel } from './runtime.ts';
import { seccompFilter } from './seccomp.ts';
import { outputOf } from './spawn.ts';
import { whyNoNamespaces } from './why-no-namespaces.ts';

const run = promisify(execFile);

export interface SandboxOptions {
  /** The setting SANDBOX; undefined when nobody set it. */
  readonly level: SandboxLevel | undefined;
  /** Started by `npm start` on one machine: falls back to best-effort where the machine has no namespaces. */
  readonly local: boolean;
  /** Path of the bubblewrap program; found in the usual places when not given. */
  readonly bwrapPath?: string | undefined;
  /** Folders of the host with what no guest may see, beside the platform's own. */
  readonly privateFolders?: readonly string[];
}

export interface Sandbox {
  readonly level: SandboxLevel;
  /** Returns the warning for operators about a level that is weaker than the default; null when there is none. */
  readonly warning: string | null;
  /**
   * The command that runs a guest inside.
   * @param slot small number, unique among the guests alive: it chooses the user id that the guest runs as
   */
  command(guest: GuestCommand, slot: number): SpawnCommand;
}

/** The sandbox that was asked for cannot be had. The message is one plain sentence with the command that mends it. */
export class SandboxUnavailable extends Error {
  override readonly name = 'SandboxUnavailable';
}

/** RLIMITs of every guest. Threads count as processes; V8 and its helpers take about ten. */
const rlimits = ['--fsize=10485760', '--nofile=64', '--core=0', '--memlock=0', '--msgqueue=0', '--sigpending=256'];
/** Only where the guest has a user namespace of its own: elsewhere it would count the user's other processes too. */
const strictLimits = [...rlimits, '--stack=8388608', '--nproc=50'];

/**
 * Finds out what this machine allows, by trying it once, and how guests are started on it.
 * @throws SandboxUnavailable when `strict` is wanted and there are no namespaces
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { level, local, bwrapPath, privateFolders = [] } = options;
  if (level === 'best-effort') return bestEffort(null);
  const strict = await tryStrict(bwrapPath, [platformFolder, ...privateFolders]);
  if (typeof strict !== 'string') return strict;
  if (level === undefined && local) {
    return bestEffort(`Functions run without namespaces (SANDBOX=best-effort): ${strict}`);
  }
  throw new SandboxUnavailable(`SANDBOX=strict is not possible here: ${strict}`);
}

/** The strict sandbox, or the sentence that says why there is none. */
async function tryStrict(bwrapPath: string | undefined, hidden: readonly string[]): Promise<Sandbox | string> {
  if (process.platform !== 'linux') return 'namespaces exist on Linux only; set SANDBOX=best-effort.';
  const filter = seccompFilter();
  if (filter === null) return `there is no list of system calls for ${process.arch}; set SANDBOX=best-effort.`;
  const tools = await findTools(bwrapPath);
  if (typeof tools === 'string') return tools;
  const shown = shownOf(hidden, []);
  if (shown !== null) return shown;
  const sandbox = strict(tools, filter, hidden);
  const shell = { source: '/bin/sh', target: '/bin/sh' };
  // A shell that starts a program: forking inside is part of what has to work.
  const probe = sandbox.command(
    { program: shell, args: ['-c', '/usr/bin/env true; exit $?'], files: [], env: {}, dataMib: 256 },
    0,
  );
  try {
    await outputOf(probe, 10_000);
    return sandbox;
  } catch (error) {
    return whyNoNamespaces(error);
  }
}

async function findTools(bwrapPath: string | undefined): Promise<StrictTools | string> {
  const bwrap = bwrapPath === undefined || bwrapPath === '' ? findProgram('bwrap') : bwrapPath;
  if (bwrap === null) return 'bubblewrap is missing; install it with `apt-get install bubblewrap`.';
  const asRoot = process.getuid?.() === 0;
  const [prlimit, setpriv] = [findProgram('prlimit'), findProgram('setpriv')];
  if (prlimit === null || (asRoot && setpriv === null)) {
    return 'prlimit or setpriv is missing; install them with `apt-get install util-linux`.';
  }
  try {
    const { stdout } = await run(bwrap, ['--version'], { env: {} });
    return { bwrap, prlimit, setpriv: asRoot ? setpriv : null, version: parseVersion(stdout) };
  } catch {
    return `${bwrap} does not run; install bubblewrap with \`apt-get install bubblewrap\`.`;
  }
}

/** `bubblewrap 0.8.0` → 8: all releases so far begin with 0. */
const parseVersion = (text: string): number => Number(/\b0\.(\d+)/.exec(text)?.[1] ?? 99);

const platformFolder = resolve(import.meta.dirname, '../..');

/** The sentence about the first of the folders that guests would see; null when there is none. */
function shownOf(folders: readonly string[], files: readonly GuestFile[]): string | null {
  const shown = folders.find((folder) => isShown(folder, files));
  return shown === undefined ? null : `functions see the system's folders, and ${shown} lies there; move it to /opt.`;
}

function strict(tools: StrictTools, seccomp: Buffer, hidden: readonly string[]): Sandbox {
  return {
    level: 'strict',
    warning: null,
    command: (guest, slot) => {
      const inside = [tools.prlimit, ...strictLimits, dataLimit(guest), '--', ...argv(guest, 'target')];
      const files = [guest.program, ...guest.args.filter((arg) => typeof arg !== 'string'), ...guest.files];
      // /usr/local is shown only to a guest whose language is there.
      const shown = shownOf(hidden, files);
      if (shown !== null) throw new SandboxUnavailable(shown);
      const [file = '', ...args] = [...strictArguments(tools, files, slot), ...inside];
      return { file, args, env: guest.env, seccomp };
    },
  };
}

function bestEffort(warning: string | null): Sandbox {
  const prlimit = process.platform === 'linux' ? findProgram('prlimit') : null;
  return {
    level: 'best-effort',
    warning,
    command: (guest) => {
      const limits = prlimit === null ? [] : [prlimit, ...rlimits, dataLimit(guest), '--'];
      const [file = '', ...args] = [...limits, ...argv(guest, 'source')];
      return { file, args, env: guest.env };
    },
  };
}

const dataLimit = ({ dataMib }: GuestCommand): string => `--data=${dataMib * 1024 * 1024}`;

const argv = ({ program, args }: GuestCommand, side: keyof GuestFile): string[] =>
  [program, ...args].map((arg) => (typeof arg === 'string' ? arg : arg[side]));

/** The usual places, not PATH: what runs as root before the sandbox closes must not depend on the environment. */
const programFolders = ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin'];

const findProgram = (name: string): string | null =>
  programFolders.map((folder) => `${folder}/${name}`).find(isExecutable) ?? null;

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
