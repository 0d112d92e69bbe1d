import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { endpoints } from '#api/endpoints.ts';
import { openapiOf } from '#api/docs/openapi.ts';
import { cliPage } from '#scripts/cli-page.ts';
import { settings } from '#lib/config.ts';
import { settingsExample } from '#lib/settings-example.ts';
import { allSettings } from '#queues/settings.ts';
import { filesOf, productFolders, root } from './source.ts';

const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');

test('docs/openapi.json is what the code yields (npm run openapi writes it)', (t) => {
  t.deepEqual(JSON.parse(read('docs/openapi.json')), JSON.parse(JSON.stringify(openapiOf(endpoints))));
});

/** The formatter aligns tables. */
const unaligned = (text: string): string => text.replaceAll(/ +/g, ' ').replaceAll(/-{3,}/g, '---');

test('docs/cli.md is what the commands yield (npm run cli:docs writes it)', async (t) => {
  t.is(unaligned(read('docs/cli.md')), unaligned(await cliPage()));
});

test('plinth.env.example is what the code yields (npm run settings writes it)', (t) => {
  t.is(read('plinth.env.example'), settingsExample(allSettings));
});

const settingFiles = new Set(['lib/config.ts', 'lib/settings-example.ts']);

test('every setting is read somewhere', (t) => {
  const sources = filesOf(productFolders).filter((file) => !settingFiles.has(file.name));
  for (const name of Object.keys(settings.shape)) {
    t.true(
      sources.some(({ text }) => new RegExp(`\\b${name}\\b`).test(text)),
      name,
    );
  }
});

test('process.env is read in lib/config.ts only, beside the scripts that start everything', (t) => {
  for (const { name, text } of filesOf(['api', 'domain', 'lib', 'migrations', 'queues', 'workers'])) {
    if (name === 'lib/config.ts' || name.includes('/guest/')) continue;
    t.notRegex(text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, ''), /process\.env\b/, name);
  }
});
