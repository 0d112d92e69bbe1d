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

/** The program as one file that needs nothing else, for Node 20 and later. */
export const bundle = async () => {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    entryPoints: [path.join(here, 'main.ts')],
    absWorkingDir: root,
    bundle: true,
    minify: true,
    write: false,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    legalComments: 'eof',
    define: { CLI_VERSION: JSON.stringify(version()) },
    banner: { js: '#!/usr/bin/env node' },
    logLevel: 'silent',
  });
  return outputFiles[0].text;
};

/** Writes the whole file or nothing: several commands may build at once. */
const writeWhole = (file, text) => {
  mkdirSync(path.dirname(file), { recursive: true });
  const next = `${file}.${randomBytes(6).toString('hex')}`;
  writeFileSync(next, text);
  renameSync(next, file);
};

/** The bundle of the present sources in that folder: made when it is not there, and the former ones are removed. */
export const bundleIn = async (folder) => {
  const file = path.join(folder, `plinth-${sourceHash()}.mjs`);
  if (existsSync(file)) return file;
  const text = await bundle();
  writeWhole(file, text);
  for (const name of readdirSync(folder)) {
    if (/^plinth-[0-9a-f]{16}\.mjs$/.test(name) && name !== path.basename(file))
      rmSync(path.join(folder, name), { force: true });
  }
  return file;
};
