import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { environment } from '#lib/config.ts';

/** A program that dumps a database. */
export interface DumpProgram {
  readonly dump: string;
  readonly major: number;
  /** As `15.18`. */
  readonly version: string;
}

const packaged = '/usr/lib/postgresql';
const versionTimeoutMs = 5000;

const folders = async (): Promise<string[]> => {
  const versions = await readdir(packaged).catch(() => []);
  const onPath = (environment()['PATH'] ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  return [...versions.map((version) => path.join(packaged, version, 'bin')), ...onPath];
};

const describe = async (folder: string): Promise<DumpProgram | null> => {
  const dump = path.join(folder, 'pg_dump');
  try {
    await access(dump, constants.X_OK);
    const options = { env: { PATH: environment()['PATH'] ?? '', LC_ALL: 'C' }, timeout: versionTimeoutMs };
    const { stdout } = await promisify(execFile)(dump, ['--version'], options);
    const version = /^pg_dump \(PostgreSQL\) (\d+(?:\.\d+)?)/.exec(stdout)?.[1];
    return version === undefined ? null : { dump, major: Number.parseInt(version, 10), version };
  } catch {
    return null;
  }
};

let known: Promise<readonly DumpProgram[]> | undefined;

const find = async (): Promise<readonly DumpProgram[]> => {
  const found = await Promise.all((await folders()).map(describe));
  return found.filter((program) => program !== null).toSorted((a, b) => b.major - a.major);
};

/**
 * The newest pg_dump of this machine, searched for once.
 * @param serverMajor a pg_dump that is older than the server refuses it
 * @returns undefined where there is none
 */
export const findDumpProgram = async (serverMajor: number): Promise<DumpProgram | undefined> =>
  (await (known ??= find())).find(({ major }) => major >= serverMajor);
