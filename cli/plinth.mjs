#!/usr/bin/env node
// `npx plinth` in the checkout: bundles the command line when its sources have changed, and runs it. In the syntax of
// Node 12, so that an older Node is told what is missing: no `?.`, no `??`, no `node:` imports, no top-level await.
import os from 'os';
import path from 'path';
import { fileURLToPath, pathToFileURL } from 'url';

const leastNode = 20;
const here = path.dirname(fileURLToPath(import.meta.url));

const fail = (sentence) => {
  console.error('plinth: ' + sentence);
  process.exit(1);
};

const begin = async () => {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < leastNode)
    return fail('Node ' + process.version + ' is too old: it needs Node ' + leastNode + ' or newer.');
  const bundler = await import('./bundle.mjs');
  const folder = path.join(here, '..', '.data', 'cli');
  // A checkout that cannot be written to still runs.
  const file = await bundler
    .bundleIn(folder)
    .catch(() => bundler.bundleIn(path.join(os.tmpdir(), 'plinth-cli-' + os.userInfo().uid)));
  return import(pathToFileURL(file).href);
};

begin().catch((error) =>
  fail(error.code === 'ERR_MODULE_NOT_FOUND' ? 'run npm ci first.' : String(error && error.stack)),
);
