import { chmodSync, readdirSync, statSync } from 'node:fs';
import test from 'ava';
import { openKeyRing } from '#lib/secrets.ts';
import { keyRingIn, opsTokenIn } from '#scripts/made-secrets.ts';
import { temporaryFolder } from './support.ts';

test('the key ring is made once, opens, and is kept where only its owner reads it', (t) => {
  const folder = temporaryFolder(t);
  const made = keyRingIn(folder);
  t.true(made.isNew);
  t.regex(made.value, /^1:[A-Za-z0-9+/]{43}=$/);
  const wrapped = openKeyRing(made.value).newDataKey('project');
  t.notThrows(() => openKeyRing(made.value).sealerFor('project', wrapped));
  t.is(statSync(made.file).mode & 0o777, 0o600);
  t.deepEqual(keyRingIn(folder), { ...made, isNew: false });
});

test('a secret that others could read is closed again', (t) => {
  const folder = temporaryFolder(t);
  const { file } = opsTokenIn(folder);
  chmodSync(file, 0o644);
  opsTokenIn(folder);
  t.is(statSync(file).mode & 0o777, 0o600);
});

test('each folder gets secrets of its own, and no half-written file', (t) => {
  const [one, other] = [temporaryFolder(t), temporaryFolder(t)];
  t.not(opsTokenIn(one).value, opsTokenIn(other).value);
  t.deepEqual(readdirSync(one), ['ops-token']);
});
