import test from 'ava';
import { uniqueName } from '#test/support/client.ts';
import { isReplay, newKey, useRequests } from './idempotency-scene.ts';

const { platform, scene, post, makeOrg, makeKey, run, countRows } = useRequests(test);

test('the same key and body replays the answer and changes nothing', async (t) => {
  const key = newKey();
  const name = uniqueName('org');
  const first = await makeOrg(key, name);
  const second = await makeOrg(key, name);
  t.is(first.status, 201);
  t.false(isReplay(first));
  t.is(second.status, 201);
  t.true(isReplay(second));
  t.deepEqual(second.body, first.body);
  t.is(second.headers.get('content-type'), first.headers.get('content-type'));
  t.is(await countRows('organizations where name = $1', [name]), 1);
});

test('the same key with another body is 422, and the first answer still replays', async (t) => {
  const key = newKey();
  const first = await makeOrg(key, 'One');
  const wrong = await makeOrg(key, 'Two');
  t.is(wrong.status, 422);
  t.is(wrong.body.code, 'idempotency_mismatch');
  t.false(isReplay(wrong));
  t.deepEqual((await makeOrg(key, 'One')).body, first.body);
});

test('the same key on another path is 422', async (t) => {
  const key = newKey();
  t.is((await makeKey(key, 'a')).status, 201);
  const answer = await post(`/projects/${scene().project.id}/functions`, key, { body: { name: 'a', kind: 'secret' } });
  t.is(answer.status, 400, 'a body that does not fit is refused before');
  t.is((await run(key, '1')).status, 422);
});

test('the same key in another organization is 422', async (t) => {
  const key = newKey();
  const { body: org } = await makeOrg(newKey(), 'Elsewhere');
  const body = { email: `${uniqueName('guest')}@example.com`, role: 'viewer' };
  t.is((await post('/team/invite', key, { body })).status, 201);
  const answer = await post('/team/invite', key, { body, headers: { 'x-org-id': org.org_id } });
  t.is(answer.status, 422);
});

test('a replay shows no secret that was shown once', async (t) => {
  const key = newKey();
  const first = await makeKey(key, 'shown once');
  const second = await makeKey(key, 'shown once');
  t.regex(first.body.api_key, /^plinth_sk_/);
  t.true(isReplay(second));
  const { api_key: secret, ...rest } = first.body;
  t.deepEqual(second.body, rest);
  t.is(await countRows('idempotency_keys where body like $1', [`%${secret}%`]), 0);
});

test('a replayed project creation shows no key and makes none', async (t) => {
  const key = newKey();
  const body = { name: 'Replayed', slug: uniqueName('p') };
  const first = await post('/projects', key, { body });
  const second = await post('/projects', key, { body });
  t.is(first.status, 201);
  t.is(second.status, 201);
  t.true(isReplay(second));
  const { api_key: _secret, publishable_key: _publishable, ...rest } = first.body;
  t.deepEqual(second.body, rest);
  t.is(await countRows('api_keys where project_id = $1', [first.body.id]), 2);
});

test('a replayed invite shows no link', async (t) => {
  const key = newKey();
  const body = { email: `${uniqueName('guest')}@example.com`, role: 'viewer' };
  t.truthy((await post('/team/invite', key, { body })).body.invite_link);
  const replay = await post('/team/invite', key, { body });
  t.true(isReplay(replay));
  t.is(replay.body.invite_link, undefined);
});

test('of 50 requests at once over two API processes one is done and 49 replay it', async (t) => {
  const key = newKey();
  const name = uniqueName('org');
  const all = await Promise.all(
    Array.from({ length: 50 }, (_, i) => makeOrg(key, name, {}, i % 2 ? scene().other : undefined)),
  );
  t.deepEqual([...new Set(all.map((answer) => answer.status))], [201]);
  t.is(all.filter((answer) => !isReplay(answer)).length, 1);
  t.is(new Set(all.map((answer) => answer.body.org_id)).size, 1);
  t.is(await countRows('organizations where name = $1', [name]), 1);
});

test('of 50 runs at once over two API processes one is done and 49 replay it', async (t) => {
  const key = newKey();
  const payload = uniqueName('payload');
  const all = await Promise.all(
    Array.from({ length: 50 }, (_, i) => run(key, payload, {}, i % 2 ? scene().other : undefined)),
  );
  t.deepEqual([...new Set(all.map((answer) => answer.status))], [200]);
  t.is(all.filter((answer) => !isReplay(answer)).length, 1);
  t.is(new Set(all.map((answer) => answer.text)).size, 1);
  t.is(await countRows('jobs where data like $1', [`%${payload}%`]), 1);
});

test('of 20 project creations at once one is done and 19 replay it', async (t) => {
  const key = newKey();
  const body = { name: 'At once', slug: uniqueName('p') };
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, i) => post('/projects', key, { body }, i % 2 ? scene().other : undefined)),
  );
  t.deepEqual([...new Set(all.map((answer) => answer.status))], [201]);
  t.is(all.filter((answer) => answer.body.api_key !== undefined).length, 1);
  t.is(new Set(all.map((answer) => answer.body.id)).size, 1);
  t.is(await countRows('projects where slug = $1', [body.slug]), 1);
});

test('of 50 requests at once with different bodies one is done and the others are 422', async (t) => {
  const key = newKey();
  const all = await Promise.all(
    Array.from({ length: 50 }, (_, i) => makeOrg(key, `Body ${i}`, {}, i % 2 ? scene().other : undefined)),
  );
  t.is(all.filter((answer) => answer.status === 201).length, 1);
  t.is(all.filter((answer) => answer.status === 422).length, 49);
});

test('a run is replayed as it ended, also when it failed', async (t) => {
  const key = newKey();
  const { client } = platform();
  const broken = await client.deploy(
    scene().user,
    scene().project,
    'export const handler = () => { throw new Error(`no ${Math.random()}`); };',
  );
  const path = `/projects/${scene().project.id}/functions/${broken.id}/invoke`;
  const first = await post(path, key, { body: { payload: 1 } });
  const second = await post(path, key, { body: { payload: 1 } });
  t.is(first.body.status, 'error');
  t.true(isReplay(second));
  t.is(second.text, first.text);
});

test('a run is replayed after its function was deleted', async (t) => {
  const key = newKey();
  const { client } = platform();
  const gone = await client.deploy(scene().user, scene().project, 'export const handler = () => 1;');
  const path = `/projects/${scene().project.id}/functions/${gone.id}/invoke`;
  const first = await post(path, key, { body: { payload: 1 } });
  await client.call('DELETE', `/projects/${scene().project.id}/functions/${gone.id}`, { token: scene().user.token });
  const second = await post(path, key, { body: { payload: 1 } });
  t.is(second.status, 200);
  t.is(second.text, first.text);
});

test('who asked not to wait gets 202 and the same job again, also when it has ended', async (t) => {
  const key = newKey();
  const headers = { prefer: 'respond-async' };
  const first = await run(key, 'async', { headers });
  t.is(first.status, 202);
  // Without the preference the replay waits for the end.
  t.is((await run(key, 'async')).status, 200);
  const again = await run(key, 'async', { headers });
  t.is(again.status, 202);
  t.true(isReplay(again));
  t.is(again.body.job_id, first.body.job_id);
  t.is(again.headers.get('location'), first.headers.get('location'));
});
