import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const here = import.meta.dirname;
const root = path.resolve(here, '..');

const sourcesIn = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'dist' ? [] : sourcesIn(file);
    return /\.(ts|mjs)$/.test(entry.name) ? [file] : [];
  });

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));

/** The version of the platform that it came with. */
export const version = () => readJson(path.join(root, 'package.json')).version;

/** A name for the sources as they are: the same sources, the same bundle. */
const sourceHash = () => {
  const hash = createHash('sha256').update(version());
  for (const file of [...sourcesIn(here).toSorted(), path.join(root, 'package-lock.json')]) {
    hash.update(file.slice(root.length)).update(existsSync(file) ? readFileSync(file) : '');
  }
  return hash.digest('hex').slice(0, 16);
};

/** The file that starts the program; the others beside it are loaded when they are needed. */
export const entryFile = 'plinth.mjs';

/** The program as files that need nothing else, for Node 20 and later: `{name, text}`. */
export const bundle = async () => {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    entryPoints: [{ in: path.join(here, 'entry.ts'), out: 'plinth' }],
    outdir: '/',
    splitting: true,
    chunkNames: 'plinth-[hash]',
    outExtension: { '.js': '.mjs' },
    absWorkingDir: root,
    bundle: true,
    minify: true,
    write: false,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    legalComments: 'eof',
    define: { CLI_VERSION: JSON.stringify(version()) },
    logLevel: 'silent',
  });
  return outputFiles.map(({ path: file, text }) => {
    const name = path.basename(file);
    return { name, text: name === entryFile ? `#!/usr/bin/env node\n${text}` : text };
  });
};

/** Writes the whole folder or nothing: several commands may build at once. */
const writeWhole = (folder, files) => {
  const next = `${folder}.${randomBytes(6).toString('hex')}`;
  mkdirSync(next, { recursive: true });
  for (const { name, text } of files) writeFileSync(path.join(next, name), text);
  try {
    renameSync(next, folder);
  } catch (error) {
    rmSync(next, { recursive: true, force: true });
    // Another command was first: what it made is the same.
    if (!existsSync(path.join(folder, entryFile))) throw error;
  }
};

/** The bundle of the present sources in that folder: made when it is not there, and the former ones are removed. */
export const bundleIn = async (folder) => {
  const present = path.join(folder, `plinth-${sourceHash()}`);
  const entry = path.join(present, entryFile);
  if (existsSync(entry)) return entry;
  writeWhole(present, await bundle());
  for (const name of readdirSync(folder)) {
    if (/^plinth-[0-9a-f]{16}(?:\.mjs)?$/.test(name) && name !== path.basename(present))
      rmSync(path.join(folder, name), { recursive: true, force: true });
  }
  return entry;
};
