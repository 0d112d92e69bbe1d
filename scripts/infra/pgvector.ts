import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import { type Apt, type Suite, downloadKnown, hasApt, isDebian, openSuite, unpack } from './apt.ts';
import { failureMemory } from './memory.ts';
import { type PostgresPrograms, hasExtension } from './postgres-programs.ts';
import type { Site } from './site.ts';
import { onWorkbench } from './workbench.ts';

/** The result of the search for pgvector: `line` is for the person. */
export interface VectorOutcome {
  readonly available: boolean;
  readonly line: string;
}

// The packaged PostgreSQL is 17, and this is the suite of Debian whose pgvector is made for 17.
const suiteName = 'trixie';
const packageName = 'postgresql-17-pgvector';
const headersName = 'postgresql-server-dev-17';
/** The libraries that the packages of that suite are linked against. */
const minGlibcMinor = 38;

// -march=native makes distances several times as fast, and the library useless to an older processor.
const compilerFlags = [
  '-O2',
  '-march=native',
  '-ftree-vectorize',
  '-fassociative-math',
  '-fno-signed-zeros',
  '-fno-trapping-math',
  '-fno-math-errno',
  '-fno-strict-aliasing',
  '-fwrapv',
  '-fPIC',
  '-shared',
];

interface Files {
  readonly library: string;
  /** The folder with vector.control and vector--*.sql. */
  readonly extension: string;
  /** Ties it to this kind of processor. */
  readonly processor?: string;
}

const processor = (): string => cpus()[0]?.model ?? '';
const noteOf = (programs: PostgresPrograms): string => path.join(programs.library, 'vector.processor');

const glibcMinor = (): number => {
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return Number(header?.glibcVersionRuntime?.split('.')[1] ?? 0);
};

/** The file appears whole or not at all. */
const put = (from: string, to: string): void => {
  const temporary = `${to}.${process.pid}`;
  cpSync(from, temporary);
  renameSync(temporary, to);
};

/** The control file comes last: it is what makes the extension visible. */
const installFiles = (files: Files, programs: PostgresPrograms): void => {
  mkdirSync(programs.library, { recursive: true });
  writeFileSync(noteOf(programs), files.processor ?? '');
  put(files.library, path.join(programs.library, 'vector.so'));
  const names = readdirSync(files.extension).filter((name) => /^vector(--.*\.sql|\.control)$/.test(name));
  const controlLast = names.toSorted((a, b) => Number(a.endsWith('.control')) - Number(b.endsWith('.control')));
  for (const name of controlLast) put(path.join(files.extension, name), path.join(programs.extensions, name));
};

/** A copy compiled for another processor would end the server at the first distance. */
const removeForeign = (programs: PostgresPrograms): void => {
  const note = noteOf(programs);
  const compiledFor = existsSync(note) ? readFileSync(note, 'utf8') : '';
  if (compiledFor !== '' && compiledFor !== processor()) rmSync(path.join(programs.extensions, 'vector.control'));
};

const systemFiles = (major: number): Files | null => {
  const library = `/usr/lib/postgresql/${major}/lib/vector.so`;
  return existsSync(library) ? { library, extension: `/usr/share/postgresql/${major}/extension` } : null;
};

const packageFiles = (unpacked: string): Files => ({
  library: path.join(unpacked, 'usr/lib/postgresql/17/lib/vector.so'),
  extension: path.join(unpacked, 'usr/share/postgresql/17/extension'),
});

const fromPackage = async (apt: Apt, archives: readonly string[]): Promise<Files> => {
  const unpacked = path.join(apt.folder, 'unpacked');
  await unpack(apt.run, archives, unpacked);
  return packageFiles(unpacked);
};

const compile = async (apt: Apt, suite: Suite): Promise<Files> => {
  await apt.run('cc', ['--version']).catch(() => {
    throw new Error('there is no C compiler to make it with: install gcc and libc6-dev');
  });
  const [source, headers] = [path.join(apt.folder, 'source'), path.join(apt.folder, 'headers')];
  const [archive, packages] = [await suite.source('pgvector'), await suite.binary(headersName)];
  mkdirSync(source);
  await apt.run('tar', ['-xf', archive, '--strip-components=1', '-C', source]);
  await unpack(apt.run, packages, headers);
  const library = path.join(source, 'vector.so');
  const sources = readdirSync(path.join(source, 'src'))
    .filter((name) => name.endsWith('.c'))
    .map((name) => `src/${name}`);
  const include = ['-I', path.join(headers, 'usr/include/postgresql/17/server'), '-Isrc'];
  await apt.run('nice', ['cc', ...compilerFlags, '-o', library, ...include, ...sources], { cwd: source });
  const extension = path.join(apt.folder, 'extension');
  const control = readFileSync(path.join(source, 'vector.control'), 'utf8');
  const version = /default_version = '([\d.]+)'/.exec(control)?.[1] ?? '';
  mkdirSync(extension);
  cpSync(path.join(source, 'sql/vector.sql'), path.join(extension, `vector--${version}.sql`));
  cpSync(path.join(source, 'vector.control'), path.join(extension, 'vector.control'));
  return { library, extension, processor: processor() };
};

const obtain = async (apt: Apt): Promise<Files> => {
  const own = await downloadKnown(apt, packageName);
  if (own !== null) return fromPackage(apt, [own]);
  if (!isDebian()) throw new Error('only Debian has a package that fits');
  const suite = await openSuite(apt, suiteName);
  return glibcMinor() >= minGlibcMinor ? fromPackage(apt, await suite.binary(packageName)) : compile(apt, suite);
};

const isUsable = (programs: PostgresPrograms): boolean => {
  if (programs.isEmbedded) removeForeign(programs);
  return hasExtension(programs, 'vector');
};

const unavailable = (reason: string): VectorOutcome => ({
  available: false,
  line: `vectors are off: pgvector is not here (${reason}); everything else works`,
});

/**
 * Returns pgvector's files that are available at once and without a network: those that are there already, or those of
 * this machine's own server.
 */
export const findVector = (programs: PostgresPrograms): VectorOutcome | null => {
  if (isUsable(programs)) return { available: true, line: 'pgvector is here' };
  const files = systemFiles(programs.major);
  if (files === null) return null;
  installFiles(files, programs);
  return { available: true, line: 'pgvector is here' };
};

/**
 * Provides pgvector to our copy of PostgreSQL: the Debian package where it runs, else compiled from Debian's source.
 * Takes seconds to a minute: not to be waited for. A failure is remembered for a day.
 */
export const provideVector = async (site: Site, programs: PostgresPrograms): Promise<VectorOutcome> => {
  const memory = failureMemory(site.runtimeDir, 'pgvector');
  const recent = memory.recent();
  if (recent !== null) return unavailable(recent);
  site.narrator.print('fetching pgvector in the background; vectors can be used when it is here');
  try {
    if (!hasApt()) throw new Error('it can be fetched by itself on Debian only');
    await onWorkbench(site.runtimeDir, 'pgvector', async (folder) => {
      installFiles(await obtain({ folder, run: site.run }), programs);
    });
    return { available: true, line: 'pgvector is ready: vectors can be used from now on' };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (!site.signal.aborted) memory.remember(reason);
    return unavailable(reason);
  }
};
