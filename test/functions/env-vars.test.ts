import { randomBytes } from 'node:crypto';
import test from 'ava';
import { maskEnvVars, maskedValue, mergeEnvVars, openEnvVars } from '#domain/functions/env-vars.ts';
import { SecretError, openKeyRing } from '#lib/secrets.ts';

const ring = openKeyRing(`1:${randomBytes(32).toString('base64')}`);
const sealer = ring.sealerFor('p', ring.newDataKey('p'));

test('no variables are kept as nothing at all', (t) => {
  t.is(mergeEnvVars(sealer, 'f', null, {}), null);
  const sealed = mergeEnvVars(sealer, 'f', null, { A: '1' });
  t.is(mergeEnvVars(sealer, 'f', sealed, { A: null }), null);
  t.deepEqual(openEnvVars(sealer, 'f', null), {});
});

test('the variables of one function cannot be read as those of another', (t) => {
  const sealed = mergeEnvVars(sealer, 'f', null, { A: '1' });
  t.throws(() => openEnvVars(sealer, 'g', sealed), { instanceOf: SecretError });
});

test('a variable may have any name of a variable, __proto__ and constructor included', (t) => {
  const changes = JSON.parse('{"__proto__":"a","constructor":"b","toString":"c"}') as Record<string, string>;
  const opened = openEnvVars(sealer, 'f', mergeEnvVars(sealer, 'f', null, changes));
  t.deepEqual(Object.entries(opened), Object.entries(changes));
  t.deepEqual(Object.values(maskEnvVars(opened)), [maskedValue, maskedValue, maskedValue]);
});
