import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { download, hasApt, libraryFolders, unpack } from './apt.ts';
import { failureMemory } from './memory.ts';
import type { Site } from './site.ts';
import { onWorkbench, publish } from './workbench.ts';

/** The bubblewrap program: `path` is `null` when the one on the PATH will do. */
export type Bubblewrap =
  | { readonly found: true; readonly path: string | null }
  | { readonly found: false; readonly why: string };

const works = async (site: Site, program: string): Promise<boolean> => {
  try {
    await site.run(program, ['--version']);
    return true;
  } catch {
    return false;
  }
};

/**
 * A start script for a machine without bubblewrap's libraries. The loader is given their folder as an argument, since a
 * variable in the environment would reach what runs in the sandbox.
 */
const writeStartScript = async (site: Site, folder: string): Promise<void> => {
  const program = path.join(folder, 'usr/bin/bwrap');
  const elf = await site.run('ldd', [program]);
  const loader = /^\s*(\/\S*ld-linux\S*)/m.exec(elf)?.[1] ?? '/lib64/ld-linux-x86-64.so.2';
  const libraries = libraryFolders(folder).map((library) => `$here/${path.relative(folder, library)}`);
  const lines = [
    '#!/bin/sh',
    'here=$(dirname "$(readlink -f "$0")")',
    `exec ${loader} --library-path "${libraries.join(':')}" "$here/usr/bin/bwrap" "$@"`,
  ];
  const script = path.join(folder, 'bwrap');
  writeFileSync(script, `${lines.join('\n')}\n`);
  chmodSync(script, 0o755);
};

const programIn = (folder: string): string => {
  const script = path.join(folder, 'bwrap');
  return existsSync(script) ? script : path.join(folder, 'usr/bin/bwrap');
};

const fetchInto = (site: Site, place: string): Promise<void> =>
  onWorkbench(site.runtimeDir, 'bubblewrap', async (bench) => {
    const unpacked = path.join(bench, 'unpacked');
    await unpack(site.run, await download({ folder: bench, run: site.run }, 'bubblewrap'), unpacked);
    if (!(await works(site, programIn(unpacked)))) await writeStartScript(site, unpacked);
    publish(unpacked, place);
  });

const mend = 'install it with `apt-get install bubblewrap` (or the like) for a strict sandbox';

/** Finds bubblewrap on the PATH, else unpacks the Debian package. Without it the platform runs, less fenced. */
export const provideBubblewrap = async (site: Site): Promise<Bubblewrap> => {
  if (process.platform !== 'linux') return { found: false, why: 'bubblewrap exists on Linux only' };
  if (await works(site, 'bwrap')) return { found: true, path: null };
  const place = path.join(site.runtimeDir, 'bubblewrap');
  const memory = failureMemory(site.runtimeDir, 'bubblewrap');
  if (existsSync(place)) return { found: true, path: programIn(place) };
  if (!hasApt()) return { found: false, why: `there is no bubblewrap: ${mend}` };
  const recent = memory.recent();
  if (recent !== null) return { found: false, why: recent };
  try {
    await site.narrator.during('fetching bubblewrap (the sandbox of functions)', () => fetchInto(site, place));
    return { found: true, path: programIn(place) };
  } catch (error) {
    const why = `bubblewrap could not be fetched (${error instanceof Error ? error.message : String(error)}): ${mend}`;
    if (!site.signal.aborted) memory.remember(why);
    return { found: false, why };
  }
};
