import test from 'ava';
import { Redis } from 'ioredis';
import { SignJWT } from 'jose';
import { createSigningKeys } from '#domain/end-users/keys.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { shardPrefix } from '#queues/gate/queue-shards.ts';
import { type CallOptions, uniqueName } from '#test/support/client.ts';
import { isReplay, newKey, useRequests } from './idempotency-scene.ts';

const { platform, scene, post, makeOrg, makeKey, run, countRows } = useRequests(test);

test('the key of another user or project is another key', async (t) => {
  const { client } = platform();
  const key = newKey();
  const stranger = await client.signUp();
  const mine = await makeOrg(key, 'Mine');
  const theirs = await makeOrg(key, 'Theirs');
  t.is(theirs.status, 422);
  const foreign = await post('/team/orgs', key, { token: stranger.token, body: { org_name: 'Mine' } });
  t.is(foreign.status, 201);
  t.false(isReplay(foreign));
  t.not(foreign.body.org_id, mine.body.org_id);
  const second = await client.createProject(scene().user);
  const first = await makeKey(key, 'same');
  const inOther = await post(`/projects/${second.id}/api-keys`, key, { body: { name: 'same', kind: 'secret' } });
  t.is(inOther.status, 201);
  t.false(isReplay(inOther));
  t.not(inOther.body.id, first.body.id);
});

test('a run by API key is replayed within its project, by whatever key of that kind', async (t) => {
  const { client } = platform();
  const { project, user } = scene();
  for (const [kind, firstKey] of [
    ['secret', project.key],
    ['publishable', project.publishableKey],
  ]) {
    const key = newKey();
    const ask = (apiKey: string | undefined) =>
      post(`/api/functions/${scene().fn.slug}`, key, { token: undefined, key: apiKey, raw: '7' });
    const body = { name: 'another', kind };
    const another = await client.call('POST', `/projects/${project.id}/api-keys`, { token: user.token, body });
    const first = await ask(firstKey);
    const second = await ask(another.body.api_key);
    t.is(first.status, 200);
    t.true(isReplay(second));
    t.is(second.text, first.text);
  }
});

/** An end user's token with any role, signed as the project signs its own. */
const endUserToken = async (role: 'anon' | 'authenticated', subject: string): Promise<string> => {
  const { db, config, base } = platform();
  const project = await findProject(db, scene().project.id);
  if (project === undefined) throw new Error('there is no such project');
  const keyRing = openKeyRing(config.PLINTH_SECRET_KEYS);
  const keys = createSigningKeys(db, (of) => keyRing.sealerFor(of.id, of.data_key));
  const { id, key } = await keys.of(project, 'RS256');
  return new SignJWT({ role })
    .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: id })
    .setIssuer(`${base}/oauth/${project.id}`)
    .setSubject(subject)
    .setExpirationTime('1h')
    .sign(key);
};

test('keys of each kind and tokens of each user and role have a space of their own', async (t) => {
  const { project, fn } = scene();
  const [anon, user, other] = await Promise.all([
    endUserToken('anon', 'ada'),
    endUserToken('authenticated', 'ada'),
    endUserToken('authenticated', 'grace'),
  ]);
  const callers: readonly CallOptions[] = [
    { key: project.key },
    { key: project.publishableKey },
    { token: anon },
    { token: user },
    { token: other },
  ];
  const key = newKey();
  const ask = (caller: CallOptions) =>
    post(`/api/functions/${fn.slug}`, key, { token: undefined, raw: '7', ...caller });
  const answers = await Promise.all(callers.map(ask));
  t.deepEqual(
    answers.map((answer) => [answer.status, isReplay(answer)]),
    callers.map(() => [200, false]),
  );
  t.is(new Set(answers.map(({ text }) => text)).size, callers.length);
  const again = await ask({ token: anon, key: project.key });
  t.true(isReplay(again), 'a token counts, and not the key that comes with it');
  t.is(again.body.invocation_id, answers[2]?.body.invocation_id);
});

test('a key is free again after 24 hours', async (t) => {
  const key = newKey();
  const first = await makeOrg(key, 'Old');
  await platform().db.query(
    `update idempotency_keys set created_at = now() - interval '24 hours 1 second' where key = $1`,
    [key],
  );
  const second = await makeOrg(key, 'New');
  t.is(second.status, 201);
  t.false(isReplay(second));
  t.not(second.body.org_id, first.body.org_id);
  t.true(isReplay(await makeOrg(key, 'New')));
});

test('a key is kept for 24 hours', async (t) => {
  const key = newKey();
  await makeOrg(key, 'Old');
  await platform().db.query(
    `update idempotency_keys set created_at = now() - interval '23 hours 59 minutes' where key = $1`,
    [key],
  );
  t.true(isReplay(await makeOrg(key, 'Old')));
});

test('the key of a run is free again after 24 hours', async (t) => {
  const key = newKey();
  const first = await run(key, 'again');
  await platform().db.query(`update idempotency_keys set created_at = now() - interval '25 hours' where key = $1`, [
    key,
  ]);
  const second = await run(key, 'again');
  t.false(isReplay(second));
  t.not(second.body.invocation_id, first.body.invocation_id);
});

test('a refusal leaves the key free', async (t) => {
  const key = newKey();
  t.is((await makeOrg(key, '')).status, 400);
  t.is((await makeOrg(key, 'Good')).status, 201);
});

test('a refusal within the transaction leaves the key free', async (t) => {
  const key = newKey();
  const email = `${uniqueName('guest')}@example.com`;
  const invite = (role: string, withKey: string) => post('/team/invite', withKey, { body: { email, role } });
  const { status, text, body: pending } = await invite('viewer', newKey());
  t.is(status, 201, text);
  t.is((await invite('viewer', key)).status, 409);
  await platform().client.call('DELETE', `/team/members/${pending.id}`, { token: scene().user.token });
  const again = await invite('viewer', key);
  t.is(again.status, 201);
  t.false(isReplay(again));
});

test('a fault within the transaction leaves the key free and nothing done', async (t) => {
  const key = newKey();
  const name = uniqueName('org');
  const { db } = platform();
  await db.query(`create function refuse_${name}() returns trigger language plpgsql as $$
    begin if new.name = '${name}' then raise exception 'broken'; end if; return new; end $$`);
  await db.query(
    `create trigger refuse_${name} before insert on organizations for each row execute function refuse_${name}()`,
  );
  const failed = await makeOrg(key, name);
  t.is(failed.status, 500);
  t.is(failed.body.code, 'internal');
  t.notRegex(failed.text, /broken|refuse_|organizations|PL\/pgSQL/i, 'nothing of ours shows');
  t.is(await countRows('idempotency_keys where key = $1', [key]), 0);
  await db.query(`drop trigger refuse_${name} on organizations`);
  const again = await makeOrg(key, name);
  t.is(again.status, 201);
  t.false(isReplay(again));
});

// Alone: the queue is broken for everybody meanwhile.
test.serial('a job that does not reach its queue leaves the key free and nothing done', async (t) => {
  const key = newKey();
  const body = { name: 'Unlucky', slug: uniqueName('p') };
  const { config } = platform();
  const redis = new Redis(config.REDIS_URL);
  // The gate keeps a hash here, and cannot look into text.
  const leases = `${shardPrefix(config.PLINTH_REDIS_PREFIX, 'project.provision')}:gate:lease`;
  await redis.del(leases);
  await redis.set(leases, 'no hash');
  const failed = await post('/projects', key, { body });
  await redis.del(leases);
  redis.disconnect();
  t.true(failed.status >= 500, failed.text);
  t.is(await countRows('projects where slug = $1', [body.slug]), 0);
  t.is(await countRows('idempotency_keys where key = $1', [key]), 0);
  const again = await post('/projects', key, { body });
  t.is(again.status, 201);
  t.false(isReplay(again));
});

test('a project whose slug is taken leaves the key free', async (t) => {
  const key = newKey();
  t.is((await post('/projects', key, { body: { name: 'x', slug: scene().project.slug } })).status, 409);
  t.is(await countRows('idempotency_keys where key = $1', [key]), 0);
});

test('keys of odd forms are 400', async (t) => {
  for (const key of ['a b', 'x'.repeat(256), 'a,b c', '\u00e4']) {
    const answer = await makeOrg(key, 'Odd');
    t.is(answer.status, 400, key);
    t.is(answer.body.details[0].path, 'Idempotency-Key');
  }
  t.is((await makeOrg(uniqueName('"quoted"').padEnd(255, 'x'), 'Long')).status, 201);
});

test('an empty key is no key', async (t) => {
  const [first, second] = [await makeOrg('', 'Empty'), await makeOrg('', 'Empty')];
  t.not(first.body.org_id, second.body.org_id);
});

test('a key does not let anybody past the role', async (t) => {
  const { client } = platform();
  const key = newKey();
  await makeKey(key, 'mine only');
  const stranger = await client.signUp();
  t.is((await makeKey(key, 'mine only', { token: stranger.token })).status, 404);
  t.is((await makeKey(key, 'mine only', { token: 'garbage' })).status, 401);
});

test('a replay writes no second audit entry', async (t) => {
  const key = newKey();
  const { body } = await makeKey(key, 'audited');
  await makeKey(key, 'audited');
  t.is(await countRows('audit_entries where target_id = $1', [body.id]), 1);
});
