import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { RunProgram } from '../run-program.ts';
import { ProgramError } from '../run-program.ts';

/**
 * Debian packages without installing them: apt resolves, downloads and checks (signatures and checksums), dpkg-deb
 * unpacks into a folder of ours. No root is needed and nothing on the machine changes: state and cache are private.
 */
export interface Apt {
  /** Where lists, cache and downloads go. */
  readonly folder: string;
  readonly run: RunProgram;
}

const onPath = (program: string): boolean =>
  (process.env['PATH'] ?? '').split(path.delimiter).some((folder) => existsSync(path.join(folder, program)));

export const hasApt = (): boolean => process.platform === 'linux' && onPath('apt-get') && onPath('dpkg-deb');

const common = {
  'APT::Get::AllowUnauthenticated': '0',
  'APT::Get::List-Cleanup': '0',
  'Acquire::AllowInsecureRepositories': '0',
  'Acquire::Languages': 'none',
  'Acquire::Retries': '1',
  'Acquire::http::Timeout': '10',
  'Acquire::https::Timeout': '10',
  'Debug::NoLocking': '1',
  'Dir::Cache::pkgcache': '',
  'Dir::Cache::srcpkgcache': '',
};

const flags = (settings: Readonly<Record<string, string>>): string[] =>
  Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);

const privateCache = (folder: string): Record<string, string> => {
  mkdirSync(path.join(folder, 'cache/archives/partial'), { recursive: true });
  // Root's apt would drop to an account that cannot write here.
  return {
    ...common,
    'Dir::Cache': path.join(folder, 'cache'),
    ...(process.getuid?.() === 0 && { 'APT::Sandbox::User': 'root' }),
  };
};

const privateLists = (folder: string): Record<string, string> => {
  mkdirSync(path.join(folder, 'lists/partial'), { recursive: true });
  return { ...privateCache(folder), 'Dir::State::lists': path.join(folder, 'lists') };
};

const withExtension = (folder: string, extension: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith(extension))
    .map((name) => path.join(folder, name));

export const unpack = async (run: RunProgram, archives: readonly string[], into: string): Promise<void> => {
  mkdirSync(into, { recursive: true });
  for (const archive of archives) await run('dpkg-deb', ['-x', archive, into]);
};

const downloadWith = async (apt: Apt, settings: Record<string, string>, name: string): Promise<string[]> => {
  const install = ['-qq', '-y', '--no-install-recommends', '--download-only', 'install', name];
  await apt.run('apt-get', [...flags(settings), ...install], { cwd: apt.folder });
  return withExtension(path.join(apt.folder, 'cache/archives'), '.deb');
};

/** Brings the lists of the machine's own sources into our folder: those of the machine may be missing or old. */
const updateLists = async (apt: Apt): Promise<void> => {
  // A third-party source that does not answer is no reason to stop: whether the package can be had is seen next.
  await apt.run('apt-get', [...flags(privateLists(apt.folder)), '-qq', 'update']).catch((error: unknown) => {
    if (!(error instanceof ProgramError)) throw error;
  });
};

/** Downloads a package and those of its dependencies that the machine lacks; gives the paths of the archives. */
export const download = async (apt: Apt, name: string): Promise<string[]> => {
  try {
    return await downloadWith(apt, privateCache(apt.folder), name);
  } catch {
    await updateLists(apt);
    return downloadWith(apt, privateLists(apt.folder), name);
  }
};

/** Downloads one package that the machine's own lists name, without its dependencies; `null` when they do not. */
export const downloadKnown = async (apt: Apt, name: string): Promise<string | null> => {
  const call = [...flags(privateCache(apt.folder)), '-qq', 'download', name];
  const known = await apt.run('apt-get', call, { cwd: apt.folder }).then(
    () => true,
    () => false,
  );
  return known ? (withExtension(apt.folder, '.deb')[0] ?? null) : null;
};

/** Folders with shared libraries inside an unpacked package. */
export const libraryFolders = (unpacked: string): string[] =>
  ['usr/lib', 'lib'].flatMap((base) => {
    const folder = path.join(unpacked, base);
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((name) => name.endsWith('-linux-gnu'))
      .map((name) => path.join(folder, name));
  });

// ---- one other suite of Debian -----------------------------------------------------------------------------------

const keyrings = [
  '/usr/share/keyrings/debian-archive-keyring.gpg',
  '/usr/share/keyrings/debian-archive-keyring.pgp',
  '/etc/apt/trusted.gpg.d/debian-archive-trixie-stable.asc',
];

const mirrorIn = async (apt: Apt, settings: Record<string, string>): Promise<string | undefined> => {
  const format = '$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(REPO_URI)';
  const listing = await apt.run('apt-get', [...flags(settings), 'indextargets', '--format', format]);
  const rows = listing.split('\n').map((line) => line.split('|'));
  return rows.find(
    ([origin, component, release]) => origin === 'Debian' && component === 'main' && !release?.includes('-'),
  )?.[3];
};

const debianMirror = async (apt: Apt): Promise<string> => {
  const known = await mirrorIn(apt, common);
  if (known !== undefined) return known;
  await updateLists(apt);
  const found = await mirrorIn(apt, privateLists(apt.folder));
  if (found === undefined) throw new ProgramError('apt-get', 'knows no Debian mirror', '');
  return found;
};

/** An apt that knows one suite of the Debian archive only, from the mirror and with the keys of this machine. */
export interface Suite {
  /** Downloads binary packages, without dependencies. */
  readonly binary: (...names: string[]) => Promise<string[]>;
  /** Downloads the upstream source archive of a package. */
  readonly source: (name: string) => Promise<string>;
}

export const isDebian = (): boolean => {
  try {
    return /^ID=debian$/m.test(readFileSync('/etc/os-release', 'utf8'));
  } catch {
    return false;
  }
};

export const openSuite = async (apt: Apt, suite: string): Promise<Suite> => {
  const mirror = await debianMirror(apt);
  const key = keyrings.find((file) => existsSync(file));
  if (key === undefined) throw new ProgramError('apt-get', 'has no keys of the Debian archive', '');
  const folder = path.join(apt.folder, suite);
  mkdirSync(folder);
  const [list, status] = [path.join(folder, 'sources.list'), path.join(folder, 'status')];
  writeFileSync(
    list,
    ['deb', 'deb-src'].map((kind) => `${kind} [signed-by=${key}] ${mirror} ${suite} main\n`).join(''),
  );
  writeFileSync(status, '');
  const settings = flags({
    ...privateLists(folder),
    'Dir::Etc::SourceList': list,
    'Dir::Etc::SourceParts': '-',
    'Dir::Etc::Preferences': '-',
    'Dir::Etc::PreferencesParts': '-',
    'Dir::State::status': status,
  });
  const call = (...args: string[]) => apt.run('apt-get', [...settings, '-qq', ...args], { cwd: folder });
  await call('update');
  return {
    binary: async (...names) => {
      await call('download', ...names);
      return withExtension(folder, '.deb').filter((file) =>
        names.some((name) => path.basename(file).startsWith(`${name}_`)),
      );
    },
    source: async (name) => {
      await call('--download-only', 'source', name);
      const archive = readdirSync(folder).find((file) => /\.orig\.tar\.[a-z0-9]+$/.test(file));
      if (archive === undefined) throw new ProgramError('apt-get', `gave no source of ${name}`, '');
      return path.join(folder, archive);
    },
  };
};
