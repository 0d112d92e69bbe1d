import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Runs a fresh process for each call: the floor of the rows at runner level. */
export interface FreshProcess {
  readonly program: string;
  /** In `fresh/`. */
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
}

/**
 * One call: a process is started, does what the function does, and ends.
 * @returns what it answered
 */
export const callFresh = async ({ program, file, env }: FreshProcess): Promise<string> => {
  const { stdout } = await run(program, [path.join(import.meta.dirname, 'fresh', file), 'null'], { env });
  return stdout;
};
