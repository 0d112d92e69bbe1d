import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const code = 'exports.handler = () => 1';

let user: TestUser;
let project: TestProject;
let path: string;

test.before('a project', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
  path = `/projects/${project.id}/functions`;
});

const call = (method: string, url: string, body?: unknown) =>
  platform().client.call(method, url, { token: user.token, body });
const create = (fields: Record<string, unknown>) =>
  call('POST', path, { name: 'fn', language: 'javascript', code, ...fields });

const bad: Record<string, Record<string, unknown>> = {
  'no name': { name: undefined },
  'an empty name': { name: '' },
  'a name of 101 characters': { name: 'x'.repeat(101) },
  'a name with NUL': { name: 'a\0' },
  'no language': { language: undefined },
  'an unknown language': { language: 'cobol' },
  'no code': { code: undefined },
  'empty code': { code: '' },
  'code with NUL': { code: 'exports.handler = () => "\0"' },
  'code with a lone surrogate': { code: 'exports.handler = () => "\ud800"' },
  'code of more than 1 MB': { code: `//${'x'.repeat(1024 * 1024)}` },
  'code of more than 1 MB in bytes': { code: `//${'ü'.repeat(600 * 1024)}` },
  'an entry point that is no name': { entry_point: 'a.b' },
  'an empty entry point': { entry_point: '' },
  'a time-out of 99 ms': { timeout_ms: 99 },
  'a time-out of more than 5 minutes': { timeout_ms: 300_001 },
  'a time-out with a fraction': { timeout_ms: 100.5 },
  'a time-out as text': { timeout_ms: '1000' },
  '63 MB of memory': { memory_mb: 63 },
  '1025 MB of memory': { memory_mb: 1025 },
  'an unknown field': { colour: 'red' },
  'a slug': { slug: 'mine' },
  'a version': { version: 7 },
  'env_vars as an array': { env_vars: ['A'] },
  'an env var that is a number': { env_vars: { A: 1 } },
  'an env var with a bad name': { env_vars: { 'A-B': 'x' } },
  'an env var with an empty name': { env_vars: { '': 'x' } },
  'an env var with NUL': { env_vars: { A: '\0' } },
  'an env var of more than 32 KB': { env_vars: { A: 'x'.repeat(32_769) } },
  'env vars of more than 128 KB': {
    env_vars: Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`A${i}`, 'x'.repeat(32_000)])),
  },
  'a masked value of a new env var': { env_vars: { A: '********' } },
};

for (const [what, fields] of Object.entries(bad)) {
  test(`a function with ${what} is refused`, async (t) => {
    const { status, body } = await create({ name: `bad ${what}`, ...fields });
    t.is(status, 400, JSON.stringify(body));
    t.is(body.code, 'validation_failed');
    t.true(body.details.length > 0);
  });
}

test('an env var called __proto__ is refused, not lost without a word', async (t) => {
  const { status, body } = await platform().client.call('POST', path, {
    token: user.token,
    raw: `{"name":"proto","language":"javascript","code":"exports.handler = () => 1","env_vars":{"__proto__":"x"}}`,
  });
  t.is(status, 400);
  t.is(body.details[0].path, 'env_vars.__proto__');
});

test('a syntax error names line and column', async (t) => {
  const { status, body } = await create({ name: 'broken', code: 'exports.handler = () => {\n  return 1 +;\n}' });
  t.is(status, 400);
  t.is(body.code, 'validation_failed');
  t.is(body.details[0].path, 'code');
  t.regex(body.details[0].message, /^line 2, column 13: /);
});

test('an import that is not part of the code is refused with the command that bundles', async (t) => {
  const { status, body } = await create({ name: 'imports', code: 'import _ from "lodash"; export default () => _;' });
  t.is(status, 400);
  t.is(body.code, 'import_not_bundled');
  t.regex(body.hint, /npx esbuild/);
});
