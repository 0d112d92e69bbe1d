import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { z } from 'zod';

const run = promisify(execFile);

export interface Interpreter {
  readonly program: string;
  /** `3.11` */
  readonly version: string;
  /** The folder that the guest must see for it to run; null when all of it is below /usr. */
  readonly folder: string | null;
}

const usualPlaces = ['/usr/bin/python3', '/usr/local/bin/python3'];
const oldestMinor = 9;

/** The hint for users who want Python where there is none. */
export const howToInstall = `Functions in Python need Python 3.${oldestMinor} or newer on the machine of the worker: install it with \`apt-get install python3\`, or name it by PLINTH_PYTHON.`;

const facts = z.object({ minor: z.number(), major: z.number(), program: z.string(), prefix: z.string() });
const question =
  'import json, os, sys; print(json.dumps({"major": sys.version_info[0], "minor": sys.version_info[1], "program": os.path.realpath(sys.executable), "prefix": sys.base_prefix}))';

/**
 * The Python interpreter of functions.
 * @param configured path of the program (`PLINTH_PYTHON`); undefined looks in the usual places
 * @returns null when there is none that is new enough
 */
export async function findPython(configured: string | undefined): Promise<Interpreter | null> {
  for (const place of configured === undefined ? usualPlaces : [configured]) {
    const found = await tryPython(place);
    if (found !== null) return found;
  }
  return null;
}

async function tryPython(path: string): Promise<Interpreter | null> {
  try {
    const { stdout } = await run(path, ['-I', '-S', '-c', question], { env: {}, timeout: 10_000 });
    const { major, minor, program, prefix } = facts.parse(JSON.parse(stdout));
    if (major !== 3 || minor < oldestMinor) return null;
    const isSystem = [program, prefix].every((place) => /^\/usr(?:\/|$)/.test(place));
    return { program, version: `${major}.${minor}`, folder: isSystem ? null : prefix };
  } catch {
    return null;
  }
}
