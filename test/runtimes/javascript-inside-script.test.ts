import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'ava';
import { insideScript } from '#workers/runtimes/javascript/inside-script.ts';

const everyoneMayRead = 0o644;

test('the script is bundled once and kept, for every user to read', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-test-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const cache = join(folder, 'cache');
  const path = insideScript(cache);
  const { mtimeMs, mode } = statSync(path);
  t.is(mode & 0o777, everyoneMayRead);
  t.is(insideScript(cache), path);
  t.is(statSync(path).mtimeMs, mtimeMs);
  t.deepEqual(readdirSync(cache).length, 1);
});

test('it is kept elsewhere when the installed packages are read-only', (t) => {
  // A folder cannot be made inside a file.
  const path = insideScript(join(import.meta.filename, 'cache'));
  t.true(path.startsWith(tmpdir()));
  t.is(statSync(path).mode & 0o777, everyoneMayRead);
  t.is(statSync(dirname(path)).mode & 0o777, 0o755);
});

test('it has one byte a character, as the guest reads it', (t) => {
  t.false(/[^\0-\x7f]/.test(readFileSync(insideScript(), 'utf8')));
});
