import { gzipSync } from 'node:zlib';
import test from 'ava';
import { endpoints } from '#api/endpoints.ts';
import { checkBody } from '#api/validate.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Answer, CallOptions } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { sendRaw } from '#test/support/raw-http.ts';

const platform = usePlatform(test, { worker: false });

const post = (path: string, options: CallOptions): Promise<Answer> => platform().client.call('POST', path, options);

const account = (extra: Readonly<Record<string, unknown>> = {}): Record<string, unknown> => ({
  email: `body-${crypto.randomUUID()}@example.com`,
  password: 'correct horse battery',
  ...extra,
});

const notJson = [
  '{',
  '',
  ' ',
  '{"a":1,}',
  "{'a':1}",
  '{"a":1}{',
  'null x',
  '"\u0001"',
  '{"a":01}',
  '\ufeff{}',
  'NaN',
  'undefined',
];

test('what is not JSON is 400 invalid_json', async (t) => {
  for (const raw of notJson.filter((text) => text !== '')) {
    isError(t, await post('/auth/login', { raw }), 400, 'invalid_json');
  }
});

test('an empty body counts as an empty object', async (t) => {
  const answer = await post('/auth/login', { raw: '' });
  isError(t, answer, 400, 'validation_failed');
  t.deepEqual(answer.body.details.map((d: { path: string }) => d.path).toSorted(), ['email', 'password']);
});

test('JSON that is no object is 400 validation_failed', async (t) => {
  for (const raw of ['null', '1', '"text"', 'true', '[]', '[{"email":"a@b.c"}]']) {
    isError(t, await post('/auth/login', { raw }), 400, 'validation_failed');
  }
});

test('bytes that are not UTF-8 are 400', async (t) => {
  for (const bytes of [
    [0xff],
    [0xc3, 0x28],
    [0xed, 0xa0, 0x80],
    [0xf4, 0x90, 0x80, 0x80],
    [0xc0, 0x80],
    [0xe2, 0x82],
  ]) {
    const raw = Buffer.concat([Buffer.from('{"email":"'), Buffer.from(bytes), Buffer.from('","password":"x"}')]);
    isError(t, await post('/auth/login', { raw }), 400, 'invalid_json');
  }
});

test('another media type, charset or encoding is 415', async (t) => {
  const raw = '{"email":"a@example.com","password":"12345678"}';
  const wrong: Record<string, string>[] = [
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/x-www-form-urlencoded' },
    { 'content-type': 'multipart/form-data; boundary=x' },
    { 'content-type': 'application/jsonp' },
    { 'content-type': 'text/json' },
    { 'content-type': 'application/json; charset=utf-16' },
    { 'content-type': 'application/json; charset="iso-8859-1"' },
    { 'content-encoding': 'gzip' },
    { 'content-encoding': 'identity, br' },
  ];
  for (const headers of wrong) {
    isError(t, await post('/auth/login', { raw, headers }), 415, 'unsupported_media_type');
  }
  isError(
    t,
    await post('/auth/login', { raw: gzipSync(raw), headers: { 'content-encoding': 'gzip' } }),
    415,
    'unsupported_media_type',
  );
});

test('a body without a media type is 415', async (t) => {
  const head = 'POST /auth/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n';
  isError(t, await sendRaw(platform().base, `${head}{}`), 415, 'unsupported_media_type');
});

test('every way to write JSON in UTF-8 as media type is taken', async (t) => {
  const types = [
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json; charset= utf-8',
    'application/json; charset=utf8',
    'application/json; odata=verbose',
    'application/vnd.api+json',
  ];
  for (const type of types) {
    const answer = await post('/auth/login', { raw: '{}', headers: { 'content-type': type } });
    t.is(answer.body.code, 'validation_failed', type);
  }
  const identity = await post('/auth/login', { raw: '{}', headers: { 'content-encoding': 'identity' } });
  t.is(identity.body.code, 'validation_failed');
});

const deep = (open: string, close: string, inner = ''): string => open.repeat(100_000) + inner + close.repeat(100_000);

test('nesting of 100,000 levels is refused and no fault of ours', async (t) => {
  for (const raw of [deep('[', ']'), deep('{"a":', '}', '1'), `{"email":${deep('[', ']')}}`, '['.repeat(100_000)]) {
    isError(t, await post('/auth/login', { raw }), 400, 'invalid_json');
  }
});

test('brackets within text are no nesting', async (t) => {
  const body = account({ full_name: `\\"${'[{'.repeat(40)}` });
  t.is((await post('/auth/signup', { body })).status, 201);
  const long = await post('/auth/signup', { body: account({ full_name: `"\\${'[{'.repeat(5000)}` }) });
  isError(t, long, 400, 'validation_failed');
});

test('an unknown field is 400 and named', async (t) => {
  const answer = await post('/auth/signup', { body: account({ is_admin: true }) });
  isError(t, answer, 400, 'validation_failed');
  t.regex(answer.body.details[0].message, /is_admin/);
});

test('wrong types are 400 and their paths named', async (t) => {
  for (const wrong of [null, 1, true, [], {}, ['a@example.com'], { toString: 'x' }]) {
    const answer = await post('/auth/signup', { body: account({ email: wrong, password: wrong }) });
    isError(t, answer, 400, 'validation_failed');
    const paths = new Set(answer.body.details.map((detail: { path: string }) => detail.path));
    t.deepEqual([...paths], ['email', 'password']);
  }
});

test('NUL and lone surrogates in text fields are 400', async (t) => {
  for (const text of ['a\\u0000b', '\\ud800', 'x\\udc00']) {
    const raw = JSON.stringify(account({ full_name: 'HERE' })).replace('HERE', text);
    isError(t, await post('/auth/signup', { raw }), 400, 'validation_failed');
  }
});

test('__proto__ and constructor are unknown fields like any other, and change no object', async (t) => {
  const plain = JSON.stringify(account());
  for (const field of [
    '"__proto__":{"polluted":true}',
    '"constructor":{"prototype":{"polluted":true}}',
    '"prototype":1',
  ]) {
    isError(t, await post('/auth/signup', { raw: `{${field},${plain.slice(1)}` }), 400, 'validation_failed');
  }
  t.is(Reflect.get({}, 'polluted'), undefined);
});

test('__proto__ does not stand in for the fields that are missing', async (t) => {
  const raw = `{"__proto__":${JSON.stringify(account())}}`;
  isError(t, await post('/auth/signup', { raw }), 400, 'validation_failed');
});

test('of a field that is there twice the last counts', async (t) => {
  const { email, password } = account();
  const raw = `{"email":"first@example.com","email":"${String(email)}","password":"${String(password)}"}`;
  const answer = await post('/auth/signup', { raw });
  t.is(answer.status, 201);
  t.is(answer.body.user.email, email);
});

test('a body that is wrong in a thousand places gets a short answer', async (t) => {
  const body = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`field_${i}`, i]));
  const answer = await post('/auth/signup', { body });
  isError(t, answer, 400, 'validation_failed');
  t.true(answer.text.length < 10_000, `${answer.text.length}`);
  const deploy = endpoints.find(({ method, path }) => method === 'post' && path === '/projects/{project_id}/functions');
  const variables = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`${i} is no name`, 'x']));
  const error = t.throws(() => deploy && checkBody(deploy, { env_vars: variables }), { instanceOf: ServiceError });
  t.true(JSON.stringify(error?.details).length < 10_000);
});

test('a call that takes no body refuses one with fields', async (t) => {
  const { client } = platform();
  const { token } = await client.signUp();
  const refused = await client.call('POST', '/auth/logout', { token, body: { surprise: 1 } });
  isError(t, refused, 400, 'validation_failed');
  t.is((await client.call('POST', '/auth/logout', { token, body: {} })).status, 204);
});
