import test from 'ava';
import { addMember } from '#test/support/members.ts';
import type { CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import { until } from '#test/support/until.ts';
import { usePlatform } from '#test/support/platform.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test);

interface Scene {
  readonly owner: TestUser;
  readonly project: TestProject;
  readonly path: string;
  /** The status of a call that any valid key of the project may make. */
  readonly use: (options: CallOptions) => Promise<number>;
}

const scene = async (): Promise<Scene> => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const fn = await client.deploy(owner, project, 'exports.handler = () => 1');
  const use: Scene['use'] = async (options) => {
    const answer = await client.call('POST', `/api/functions/${fn.slug}`, { body: 1, ...options });
    return answer.status;
  };
  return { owner, project, path: `/projects/${project.id}/api-keys`, use };
};

const make = async ({ owner, path }: Scene, fields: Record<string, unknown> = {}) => {
  const body = { name: 'CI', kind: 'secret', ...fields };
  return platform().client.call('POST', path, { token: owner.token, body });
};

test('a key works in each of the three headers, and in two that agree', async (t) => {
  const { project, use } = await scene();
  for (const key of [project.key, project.publishableKey]) {
    t.is(await use({ headers: { apikey: key } }), 200);
    t.is(await use({ headers: { 'x-api-key': key } }), 200);
    t.is(await use({ headers: { authorization: `Bearer ${key}` } }), 200);
    t.is(await use({ headers: { apikey: key, authorization: `Bearer ${key}` } }), 200);
  }
});

test('no key, a forged one, two different ones and a dashboard token are refused', async (t) => {
  const { owner, project, use } = await scene();
  const [key, other] = [project.key, project.publishableKey];
  const last = key.endsWith('A') ? 'B' : 'A';
  t.is(await use({}), 401);
  t.is(await use({ key: `${key.slice(0, -1)}${last}` }), 401);
  t.is(await use({ key: 'plinth_sk_' }), 401);
  t.is(await use({ key: `${key}\u00e9` }), 401);
  t.is(await use({ headers: { apikey: key, authorization: `Bearer ${other}` } }), 401);
  t.is(await use({ headers: { apikey: key, 'x-api-key': other } }), 401);
  t.is(await use({ token: owner.token }), 401);
  t.is(await use({ headers: { apikey: key, authorization: `Bearer ${owner.token}` } }), 401);
});

test('a key opens nothing of the dashboard', async (t) => {
  const { project, path } = await scene();
  for (const url of [path, `/projects/${project.id}`, '/projects', '/auth/me']) {
    const answer = await platform().client.call('GET', url, { token: project.key });
    t.is(answer.status, 401, url);
  }
});

test('a key is shown once and listed masked', async (t) => {
  const at = await scene();
  const made = await make(at);
  t.is(made.status, 201);
  const key: string = made.body.api_key;
  t.is(await at.use({ key }), 200);
  const listed = await platform().client.call('GET', at.path, { token: at.owner.token });
  t.is(listed.status, 200);
  t.is(listed.body.total, 3);
  const entry = listed.body.api_keys.find(({ id }: { id: string }) => id === made.body.id);
  t.like(entry, { name: 'CI', kind: 'secret', expires_at: null, last_four: key.slice(-4) });
  t.true(key.startsWith(entry.prefix));
  t.true(entry.prefix.length < 20);
  t.is(listed.text.includes(key), false);
  t.is(listed.text.includes('hash'), false);
});

test('a key is kept as a hash only', async (t) => {
  const at = await scene();
  const key: string = (await make(at)).body.api_key;
  const rows = await platform().db.query<{ row: string }>('select api_keys::text as row from api_keys');
  t.false(rows.some(({ row }) => row.includes(key) || row.includes(key.slice(20))));
  t.false(platform().logged().includes(key));
});

test('viewers see keys masked; only admins make, roll and delete them', async (t) => {
  const at = await scene();
  const { client } = platform();
  const viewer = await addMember(platform(), at.project.orgId, 'viewer');
  const developer = await addMember(platform(), at.project.orgId, 'developer');
  const admin = await addMember(platform(), at.project.orgId, 'admin');
  t.is((await client.call('GET', at.path, { token: viewer.token })).status, 200);
  const body = { name: 'k', kind: 'secret' };
  t.is((await client.call('POST', at.path, { token: developer.token, body })).status, 403);
  const made = await client.call('POST', at.path, { token: admin.token, body });
  t.is(made.status, 201);
  const path = `${at.path}/${made.body.id}`;
  t.is((await client.call('POST', `${path}/roll`, { token: developer.token, body: {} })).status, 403);
  t.is((await client.call('DELETE', path, { token: developer.token })).status, 403);
  t.is((await client.call('DELETE', path, { token: admin.token })).status, 204);
});

test('malformed keys are refused', async (t) => {
  const at = await scene();
  const bodies: Record<string, unknown>[] = [
    { name: '' },
    { name: 'x'.repeat(101) },
    { kind: 'root' },
    { kind: undefined },
    { expires_at: 'tomorrow' },
    { expires_at: '2020-01-01T00:00:00.000Z' },
    { expires_at: 5 },
    { project_id: at.project.id },
  ];
  for (const fields of bodies) t.is((await make(at, fields)).status, 400, JSON.stringify(fields));
});

test('a key stops at its expiry', async (t) => {
  const at = await scene();
  const made = await make(at, { expires_at: '2999-01-01T00:00:00.000Z' });
  t.is(made.body.expires_at, '2999-01-01T00:00:00.000Z');
  t.is(await at.use({ key: made.body.api_key }), 200);
  await platform().db.transaction(
    async (tx) => void (await tx.query('update api_keys set expires_at = now() where id = $1', [made.body.id])),
    { 'plinth.actor': '{"type":"system"}' },
  );
  // Behind the platform's back: within seconds. Without it the time itself is looked at.
  await until(async () => (await at.use({ key: made.body.api_key })) === 401);
  const rolled = await platform().client.call('POST', `${at.path}/${made.body.id}/roll`, {
    token: at.owner.token,
    body: {},
  });
  t.is(rolled.status, 410);
  t.is(rolled.body.code, 'expired');
});

test('a deleted key stops at once', async (t) => {
  const at = await scene();
  const made = await make(at, { kind: 'publishable' });
  const { client } = platform();
  const path = `${at.path}/${made.body.id}`;
  t.is((await client.call('DELETE', path, { token: at.owner.token })).status, 204);
  t.is(await at.use({ key: made.body.api_key }), 401);
  t.is((await client.call('DELETE', path, { token: at.owner.token })).status, 404);
});

const roll = (at: Scene, id: string, body: unknown) =>
  platform().client.call('POST', `${at.path}/${id}/roll`, { token: at.owner.token, body });

test('a rolled key stops at once, and the new one takes its place', async (t) => {
  const at = await scene();
  const made = await make(at, { expires_at: '2999-01-01T00:00:00.000Z' });
  const rolled = await roll(at, made.body.id, {});
  t.is(rolled.status, 201);
  t.like(rolled.body, { name: 'CI', kind: 'secret', expires_at: '2999-01-01T00:00:00.000Z' });
  t.not(rolled.body.id, made.body.id);
  t.is(await at.use({ key: made.body.api_key }), 401);
  t.is(await at.use({ key: rolled.body.api_key }), 200);
});

test('with an overlap both keys work until it is over', async (t) => {
  const at = await scene();
  const made = await make(at);
  const rolled = await roll(at, made.body.id, { overlap_seconds: 3600 });
  t.is(rolled.status, 201);
  t.is(rolled.body.expires_at, null);
  t.is(await at.use({ key: made.body.api_key }), 200);
  t.is(await at.use({ key: rolled.body.api_key }), 200);
  const { body } = await platform().client.call('GET', at.path, { token: at.owner.token });
  const old = body.api_keys.find(({ id }: { id: string }) => id === made.body.id);
  const left = new Date(old.expires_at).getTime() - Date.now();
  t.true(left > 3_500_000 && left <= 3_600_000, old.expires_at);
});

test('an overlap never makes a key live longer', async (t) => {
  const at = await scene();
  const soon = new Date(Date.now() + 60_000).toISOString();
  const made = await make(at, { expires_at: soon });
  await roll(at, made.body.id, { overlap_seconds: 3600 });
  const { body } = await platform().client.call('GET', at.path, { token: at.owner.token });
  t.is(body.api_keys.find(({ id }: { id: string }) => id === made.body.id).expires_at, soon);
});

test('of 20 rolls of one key at once one wins', async (t) => {
  const at = await scene();
  const made = await make(at);
  const answers = await Promise.all(Array.from({ length: 20 }, () => roll(at, made.body.id, {})));
  t.deepEqual(statusCounts(answers), { 201: 1, 404: 19 });
});

test('an overlap out of range is refused', async (t) => {
  const at = await scene();
  const made = await make(at);
  for (const overlap of [-1, 0.5, 1e9, '60', null])
    t.is((await roll(at, made.body.id, { overlap_seconds: overlap })).status, 400, String(overlap));
  t.is(await at.use({ key: made.body.api_key }), 200);
});

test('a key of another project can be neither rolled nor deleted', async (t) => {
  const [mine, theirs] = [await scene(), await scene()];
  const made = await make(theirs);
  t.is((await roll(mine, made.body.id, {})).status, 404);
  const answer = await platform().client.call('DELETE', `${mine.path}/${made.body.id}`, { token: mine.owner.token });
  t.is(answer.status, 404);
  t.is(await theirs.use({ key: made.body.api_key }), 200);
});

test('a list says when each key was used last, and its use is no entry of the audit log', async (t) => {
  const at = await scene();
  const [used, unused] = [await make(at), await make(at)];
  t.is(await at.use({ key: used.body.api_key }), 200);
  const lastUse = async (id: string): Promise<string | null> => {
    const { body } = await platform().client.call('GET', at.path, { token: at.owner.token });
    return body.api_keys.find((key: { id: string }) => key.id === id).last_used_at;
  };
  await until(async () => (await lastUse(used.body.id)) !== null);
  t.is(await lastUse(unused.body.id), null);
  const entries = await platform().db.query(`select from audit_entries where target_id = $1`, [used.body.id]);
  t.is(entries.length, 1);
});
