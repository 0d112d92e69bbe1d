import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { type Program, plainEnvironment, readText, root, runScript, temporaryFolder } from './support.ts';

const packages = { '': {}, 'node_modules/a': { version: '1.0.0' }, 'node_modules/b': { version: '2.0.0', dev: true } };

// Writes down that it was called and makes what `npm ci` would: folders first, its own list as the last act.
const fakeNpm = `#!/usr/bin/env node
const fs = require('node:fs');
fs.appendFileSync('npm.calls', process.argv.slice(2).join(' ') + '\\n');
if (process.env.NPM_FAILS) process.exit(9);
const lock = JSON.parse(fs.readFileSync('package-lock.json', 'utf8'));
fs.rmSync('node_modules', { recursive: true, force: true });
for (const place of Object.keys(lock.packages).filter(Boolean)) {
  fs.mkdirSync(place, { recursive: true });
  fs.writeFileSync(place + '/package.json', '{}');
}
fs.writeFileSync('node_modules/.package-lock.json', JSON.stringify(lock));
`;

interface Checkout {
  readonly folder: string;
  readonly run: (command: string, extra?: NodeJS.ProcessEnv) => Program;
  readonly npmCalls: () => number;
}

/** A checkout with a command line of ours, a package list, and an npm that is not the real one. */
const checkout = (t: ExecutionContext): Checkout => {
  const folder = temporaryFolder(t);
  const bin = path.join(folder, 'bin');
  mkdirSync(path.join(folder, 'scripts'));
  mkdirSync(bin);
  cpSync(path.join(root, 'scripts/cli.mjs'), path.join(folder, 'scripts/cli.mjs'));
  const main = 'export const main = (command, args) => { console.log("ran", command, ...args); process.exit(0); };';
  writeFileSync(path.join(folder, 'scripts/main.ts'), main);
  writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify({ packages }));
  writeFileSync(path.join(bin, 'package.json'), '{"type":"commonjs"}');
  writeFileSync(path.join(bin, 'npm'), fakeNpm);
  chmodSync(path.join(bin, 'npm'), 0o755);
  const PATH = [bin, path.dirname(process.execPath), process.env['PATH']].join(path.delimiter);
  const calls = path.join(folder, 'npm.calls');
  return {
    folder,
    run: (command, extra = {}) =>
      runScript([path.join(folder, 'scripts/cli.mjs'), command, 'x y'], plainEnvironment({ PATH, ...extra })),
    npmCalls: () => (existsSync(calls) ? readText(calls).trim().split('\n').length : 0),
  };
};

test('packages are installed once, then the command runs with its arguments', async (t) => {
  const { run, npmCalls, folder } = checkout(t);
  const first = run('start');
  t.is(await first.end, 0);
  // Two streams: which of the lines arrives first is open.
  t.regex(first.output(), /installing packages/);
  t.regex(first.output(), /ran start x y/);
  const second = run('start');
  t.is(await second.end, 0);
  t.notRegex(second.output(), /installing/);
  t.is(npmCalls(), 1);
  t.deepEqual(readdirSync(path.join(folder, '.data')), []);
});

test('another package-lock.json means another install', async (t) => {
  const { run, npmCalls, folder } = checkout(t);
  await run('start').end;
  const newer = { ...packages, 'node_modules/a': { version: '1.0.1' } };
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify({ packages: newer }));
  await run('start').end;
  t.is(npmCalls(), 2);
});

for (const [what, spoil] of [
  ['without its last act', (modules: string) => rmSync(path.join(modules, '.package-lock.json'))],
  ['with a package missing', (modules: string) => rmSync(path.join(modules, 'a'), { recursive: true })],
  ['with a folder that npm had put aside', (modules: string) => mkdirSync(path.join(modules, '.a-Xy12Zz9Q'))],
] as const) {
  test(`an install ${what} is not taken for whole`, async (t) => {
    const { run, npmCalls, folder } = checkout(t);
    await run('start').end;
    spoil(path.join(folder, 'node_modules'));
    t.is(await run('start').end, 0);
    t.is(npmCalls(), 2);
  });
}

test('packages for development are needed by the tests, not by the start', async (t) => {
  const { run, npmCalls, folder } = checkout(t);
  await run('start').end;
  const { 'node_modules/b': _development, ...production } = packages;
  writeFileSync(path.join(folder, 'node_modules/.package-lock.json'), JSON.stringify({ packages: production }));
  await run('start').end;
  t.is(npmCalls(), 1);
  await run('test').end;
  t.is(npmCalls(), 2);
  t.regex(readText(path.join(folder, 'npm.calls')), /--include=dev\n$/);
});

test('an npm that fails ends the command with its code', async (t) => {
  const { run } = checkout(t);
  const program = run('start', { NPM_FAILS: 'yes' });
  t.is(await program.end, 9);
  t.regex(program.output(), /could not be installed/);
  t.notRegex(program.output(), /ran start/);
});

test('two commands at once install once', async (t) => {
  const { run, npmCalls } = checkout(t);
  const programs = [run('start'), run('start'), run('start')];
  t.deepEqual(await Promise.all(programs.map(({ end }) => end)), [0, 0, 0]);
  t.is(npmCalls(), 1);
});

test('an unknown command is answered with those there are', async (t) => {
  const { run } = checkout(t);
  const program = run('strat');
  t.is(await program.end, 1);
  t.regex(program.output(), /usage: .*start\|stop\|test/);
});
