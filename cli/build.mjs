// `npm run cli:build`: the package that is published, as cli/dist/plinth-<version>.tgz, or in the folder that is named.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundle, entryFile, version } from './bundle.mjs';

const here = import.meta.dirname;
const root = path.resolve(here, '..');
const dist = path.resolve(process.argv[2] ?? path.join(here, 'dist'));

/** No dependency and no script of an install: the bundle is all. */
const manifest = {
  name: 'plinth',
  version: version(),
  description: 'The command line of plinth: databases, functions and files of your projects.',
  license: 'Apache-2.0',
  type: 'module',
  bin: { plinth: entryFile },
  exports: { './functions': { types: './functions.d.ts' } },
  engines: { node: '>=20' },
};

const stage = mkdtempSync(path.join(tmpdir(), 'plinth-package-'));
try {
  writeFileSync(path.join(stage, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
  for (const { name, text } of await bundle())
    writeFileSync(path.join(stage, name), text, { mode: name === entryFile ? 0o755 : 0o644 });
  copyFileSync(path.join(root, 'LICENSE'), path.join(stage, 'LICENSE'));
  copyFileSync(path.join(root, 'docs/cli.md'), path.join(stage, 'README.md'));
  copyFileSync(path.join(root, 'docs/functions/plinth.d.ts'), path.join(stage, 'functions.d.ts'));
  mkdirSync(dist, { recursive: true });
  for (const name of readdirSync(dist)) if (name.endsWith('.tgz')) rmSync(path.join(dist, name));
  execFileSync('npm', ['pack', '--silent', '--pack-destination', dist], {
    cwd: stage,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  console.log(path.join(dist, readdirSync(dist).find((name) => name.endsWith('.tgz')) ?? ''));
} finally {
  rmSync(stage, { recursive: true, force: true });
}
