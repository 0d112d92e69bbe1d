import { randomBytes } from 'node:crypto';
import test from 'ava';
import { listEnvVars, maskEnvVars, maskedValue, mergeEnvVars, openEnvVars } from '#domain/functions/env-vars.ts';
import { ServiceError } from '#lib/errors.ts';
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

const numbered = (count: number): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`N${n}`, String(n)]));

test('a function has 200 variables at most, and one of before that bound keeps what it has', (t) => {
  const tooMany = { instanceOf: ServiceError, code: 'validation_failed' };
  const full = mergeEnvVars(sealer, 'f', null, numbered(200));
  t.throws(() => mergeEnvVars(sealer, 'f', null, numbered(201)), tooMany);
  t.throws(() => mergeEnvVars(sealer, 'f', full, { MORE: '' }), tooMany);
  t.is(Object.keys(openEnvVars(sealer, 'f', mergeEnvVars(sealer, 'f', full, { N0: null, MORE: '' }))).length, 200);
  const old = sealer.seal('function:f:env', JSON.stringify(numbered(300)));
  t.is(openEnvVars(sealer, 'f', mergeEnvVars(sealer, 'f', old, { N0: 'changed' }))['N0'], 'changed');
  t.is(Object.keys(openEnvVars(sealer, 'f', mergeEnvVars(sealer, 'f', old, { N0: null }))).length, 299);
  t.throws(() => mergeEnvVars(sealer, 'f', old, { MORE: '' }), tooMany);
});

test('a list shows the names of 200 variables and no value, whatever the values are', (t) => {
  const vars = { A: '', B: '"', C: '\\', D: '\\","E":"e"', F: '{"G":"g"}\n', H: '\u0001 ü 😀', constructor: 'x' };
  const sealed = mergeEnvVars(sealer, 'f', null, vars);
  t.deepEqual(listEnvVars(sealer, 'f', sealed), maskEnvVars(vars));
  t.deepEqual(listEnvVars(sealer, 'f', null), {});
  const long = mergeEnvVars(sealer, 'f', null, { A: '"\\'.repeat(16_000), B: 'x' });
  t.deepEqual(Object.keys(listEnvVars(sealer, 'f', long)), ['A', 'B']);
  const old = sealer.seal('function:f:env', JSON.stringify(numbered(16_000)));
  t.deepEqual(Object.keys(listEnvVars(sealer, 'f', old)), Object.keys(numbered(200)));
});
