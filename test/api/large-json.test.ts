import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const scene = async () => {
  const user = await platform().client.signUp();
  return { user, project: await platform().client.createProject(user) };
};

const objects = (count: number): string => `[${'{},'.repeat(count - 1)}{}]`;

/** Processor time of this thread, in ms: the platform of these tests runs in it. */
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

test('a body for models that is finely divided is 413 before anything is built of it', async (t) => {
  const { user, project } = await scene();
  const { call } = platform().client;
  const raw = `{"model":"m","messages":${objects(1_000_000)}}`;
  isError(
    t,
    await call('POST', `/projects/${project.id}/ai/chat`, { raw, token: user.token }),
    413,
    'payload_too_large',
  );
  const surface = await call('POST', '/v1/chat/completions', { raw, key: project.key });
  t.deepEqual([surface.status, surface.body.error.code], [413, 'payload_too_large']);
  const broken = await call('POST', '/v1/chat/completions', {
    raw: `{"model":"${'x'.repeat(300_000)}"`,
    key: project.key,
  });
  t.deepEqual([broken.status, broken.body.error.code], [400, 'invalid_json']);
});

test('a large body for models that is text is read as a small one', async (t) => {
  const { project } = await scene();
  const messages = [{ role: 'user', content: 'ü'.repeat(2_000_000) }];
  const answer = await platform().client.call('POST', '/v1/chat/completions', {
    body: { model: 'openai/m', messages },
    key: project.key,
  });
  t.deepEqual([answer.status, answer.body.error.code], [409, 'provider_not_configured']);
});

test('a message of 80,000 parts, each of them wrong, is refused without checking them all', async (t) => {
  const { project } = await scene();
  for (const messages of [
    `[{"role":"user","content":${objects(80_000)}}]`,
    `[{"role":"assistant","tool_calls":${objects(80_000)}}]`,
  ]) {
    const raw = `{"model":"m","messages":${messages}}`;
    const before = cpuMs();
    const answer = await platform().client.call('POST', '/v1/chat/completions', { raw, key: project.key });
    const usedMs = cpuMs() - before;
    t.deepEqual([answer.status, answer.body.error.code], [400, 'validation_failed']);
    // Processor time, not time: it was 1,400 ms.
    t.true(usedMs < 500, `${usedMs} ms`);
  }
});

test('the payload of a function is passed on as it is, two million objects included', async (t) => {
  const { user, project } = await scene();
  const { call, deploy } = platform().client;
  const fn = await deploy(user, project, 'export const handler = (payload) => payload.length;');
  const raw = objects(700_000);
  const answer = await call('POST', `/api/functions/${fn.slug}`, { raw, key: project.key });
  t.deepEqual([answer.status, answer.text], [200, '700000'], answer.text);
  isError(
    t,
    await call('POST', `/api/functions/${fn.slug}`, { raw: raw.slice(1), key: project.key }),
    400,
    'invalid_json',
  );
});

test('rows that are finely divided are 413 PGRST102, and 20,000 rows of two columns are written', async (t) => {
  const { call, signUp, createProject } = platform().client;
  const user = await signUp();
  const project = await createProject(user, { plan: 'enterprise' });
  const sql = 'create table many (a int, b int)';
  const made = await call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql } });
  t.is(made.status, 200, made.text);
  const flood = await call('POST', '/v1/rest/many', { raw: objects(300_000), key: project.key });
  t.deepEqual([flood.status, flood.body.code], [413, 'PGRST102'], flood.text);
  const rows = Array.from({ length: 20_000 }, (_, a) => ({ a, b: 1 }));
  t.is((await call('POST', '/v1/rest/many', { body: rows, key: project.key })).status, 201);
});
