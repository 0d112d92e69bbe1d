import test from 'ava';
import { createClient } from '#test/support/client.ts';
import { useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test);

const returns = (value: unknown): string => `exports.handler = () => (${JSON.stringify(value)})`;

/** A function that two API processes have been asked for. */
const knownToBoth = async () => {
  const opened = await scene(returns(1));
  const { project, fn, user } = opened;
  const clients = [platform().client, createClient(await platform().startApi())];
  const slugPath = `/api/functions/${fn.slug}`;
  const byKey = () => Promise.all(clients.map((each) => each.call('POST', slugPath, { key: project.key, body: null })));
  const idPath = `/projects/${project.id}/functions/${fn.id}/invoke`;
  const byId = () =>
    Promise.all(clients.map((each) => each.call('POST', idPath, { token: user.token, body: { payload: null } })));
  await byKey();
  await byId();
  return { ...opened, byKey, byId };
};

test('after a confirmed deploy every API process runs the new version, and names it', async (t) => {
  const { ask, fn, byKey, byId } = await knownToBoth();
  for (const value of [2, 3, 4]) {
    await ask('PATCH', `/functions/${fn.id}`, { body: { code: returns(value) } });
    for (const answer of await byKey()) {
      t.is(answer.body, value);
      t.is(answer.headers.get('x-function-version'), String(value));
    }
    for (const answer of await byId()) t.is(answer.body.result, value);
  }
});

test('a deleted function is not found, and counts no run, in every API process', async (t) => {
  const { ask, fn, project, byKey, byId } = await knownToBoth();
  const used = () =>
    platform().db.query<{ used: number }>('select used from job_usage where project_id = $1', [project.id]);
  const before = await used();
  await ask('DELETE', `/functions/${fn.id}`);
  for (const answer of [...(await byKey()), ...(await byId())]) t.is(answer.status, 404);
  t.deepEqual(await used(), before);
});

test('a function that is deleted and deployed anew under its slug is another one', async (t) => {
  const { ask, fn, byKey } = await knownToBoth();
  await ask('DELETE', `/functions/${fn.id}`);
  const again = await ask('POST', '/functions', {
    body: { name: fn.slug, language: 'javascript', code: returns('anew') },
  });
  t.is(again.body.slug, fn.slug);
  for (const answer of await byKey()) t.is(answer.body, 'anew');
});

test('a rollback counts as a deploy', async (t) => {
  const { ask, fn, byKey } = await knownToBoth();
  await ask('PATCH', `/functions/${fn.id}`, { body: { code: returns(2) } });
  for (const answer of await byKey()) t.is(answer.body, 2);
  await ask('POST', `/functions/${fn.id}/versions/1/rollback`);
  for (const answer of await byKey()) t.is(answer.body, 1);
});
