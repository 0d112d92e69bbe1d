import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { StartError, explainOutput } from '../errors.ts';
import { ProgramError } from '../run-program.ts';
import type { PostgresPrograms } from './postgres-programs.ts';
import type { Site } from './site.ts';
import { type Account, giveTo } from './unprivileged.ts';

export const user = 'plinth';
export const database = 'plinth';

/** Our environment without what would change a server: PGDATA, PGPORT, the locale of the person. */
export const serverEnvironment = (): NodeJS.ProcessEnv => {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG)/.test(name));
  return { ...Object.fromEntries(inherited), LC_ALL: 'C' };
};

export interface Cluster {
  readonly site: Site;
  readonly programs: PostgresPrograms;
  readonly account: Account;
  readonly data: string;
  readonly password: string;
}

const runAs = (cluster: Cluster, program: string, args: readonly string[], input?: string): Promise<string> => {
  const { prefix, uid, gid } = cluster.account;
  const [command = '', ...rest] = [...prefix, path.join(cluster.programs.bin, program), ...args];
  const account = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
  const env = serverEnvironment();
  return cluster.site.run(command, rest, {
    cwd: cluster.site.dataDir,
    env,
    ...account,
    ...(input !== undefined && { input }),
  });
};

// Since 17 the server brings the locale itself: the same order of text on every machine.
const localeArguments = (major: number): string[] =>
  major >= 17
    ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
    : [process.platform === 'darwin' ? '--locale=C' : '--locale=C.UTF-8'];

/**
 * Since 16 the iterations can be chosen that make guessing a password slow: 4096 are half of the cost of each
 * connection, and nobody guesses at a server that lives for a run of tests.
 */
const passwordArguments = (site: Site, major: number): string[] =>
  site.durable || major < 16 ? [] : ['-c', 'scram_iterations=1'];

const makeCluster = async (cluster: Cluster): Promise<void> => {
  const { data, site, account, programs } = cluster;
  const making = `${data}.making`;
  const passwordFile = `${data}.pass`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { mode: 0o700 });
  writeFileSync(passwordFile, cluster.password, { mode: 0o600 });
  giveTo(making, account.owner);
  giveTo(passwordFile, account.owner);
  const sync = site.durable ? [] : ['--no-sync'];
  const locale = localeArguments(programs.major);
  const cheap = passwordArguments(site, programs.major);
  const login = ['-U', user, '--auth=scram-sha-256', `--pwfile=${passwordFile}`];
  try {
    await runAs(cluster, 'initdb', ['-D', making, '-E', 'UTF8', ...login, ...locale, ...sync, ...cheap]);
    const single = ['--single', '-D', making, ...(site.durable ? [] : ['-F']), 'postgres'];
    await runAs(cluster, 'postgres', single, `create database ${database};\n`);
    renameSync(making, data);
  } finally {
    rmSync(passwordFile, { force: true });
    rmSync(making, { recursive: true, force: true });
  }
};

const explainFailure = (error: unknown, where: string): unknown =>
  error instanceof ProgramError
    ? (explainOutput(error.output, where) ??
      new StartError(`The database could not be made in ${where}: ${error.message}`))
    : error;

/**
 * Makes a database cluster in `data` with our role and our database in it. It gets its name as the last act: one whose
 * making was cut off is never taken for whole.
 */
export const createCluster = (cluster: Cluster): Promise<void> =>
  cluster.site.narrator
    .during('making the database', () => makeCluster(cluster))
    .catch((error: unknown) => {
      throw explainFailure(error, cluster.site.dataDir);
    });
