import test from 'ava';
import { createAuthDb } from '#domain/end-users/auth-db.ts';
import { sweepEndUsers } from '#domain/end-users/sweep.ts';
import { createTenantDb } from '#lib/tenant-db.ts';
import { useAuth } from '#test/auth/auth-scene.ts';
import { memoryLog } from '#test/support/platform.ts';
import { tenantLogin } from '#test/support/tenant.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, useOAuth } from './oauth-scene.ts';

const limited = { PLINTH_RATE_LIMITS: 'on', PLINTH_RATE_LIMIT_SIGN_IN: '100000' };
const scene = useOAuth(test, useAuth(test, { settings: limited }));
const { authorize, developer, newClient, newProject, signedUp, tokensFor, codeFor, platform, issuer } = scene;

const hex = (value: string): string => Buffer.from(value).toString('hex');

test('case 27: after ten wrong passwords the page refuses the address, also with the right one', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  const { browser, page } = await authorize(await newClient({}, of), {}, undefined, of);
  const given = { email: user.email, password: 'wrong password' };
  for (let n = 0; n < 10; n += 1) t.is((await browser.submit(page, '/login', given)).status, 400);
  const refused = await browser.submit(page, '/login', { ...given, password: 'correct horse battery' });
  t.is(refused.status, 429);
  t.true(Number(refused.headers.get('retry-after')) > 0);
  t.regex(refused.text, /Too many attempts/);
});

test('nothing that the provider keeps lets somebody in who reads the database', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  const client = await newClient({}, of);
  const { code, browser } = await codeFor(client, user.email, {}, of);
  const tokens = await tokensFor(client, user.email, {}, of);
  const rows = await useDatabase(platform(), of).query(
    'auth',
    `select (select json_agg(o) from auth.openid o)::text || (select json_agg(s) from auth.sessions s)::text as text`,
  );
  const text = JSON.stringify(rows);
  for (const secret of [code, browser.cookie('_session') ?? 'none', tokens.refresh_token])
    t.false(text.includes(secret) || text.includes(hex(secret)));
});

test('strangers cannot open requests without end, and who is signed in goes on', async (t) => {
  const of = await platform().client.createProject(developer(), { plan: 'free' });
  const { user } = await signedUp(of);
  const client = await newClient({}, of);
  const { browser } = await codeFor(client, user.email, {}, of);
  await useDatabase(platform(), of).query(
    'auth',
    `insert into auth.openid (model, id, payload_sealed, expires_at)
     select 'Interaction', sha256(n::text::bytea), '', now() + interval '1 hour' from generate_series(1, 5000) n`,
  );
  const started = await authorize(client, {}, undefined, of);
  t.is(started.page.status, 200, 'a new request ends an old one, and is served');
  t.truthy((await scene.signInAt(started, user.email)).searchParams.get('code'));
  for (let n = 0; n < 5; n += 1) await authorize(client, {}, undefined, of);
  const [open] = await useDatabase(platform(), of).query(
    'auth',
    `select count(*)::int as n from auth.openid where model = 'Interaction' and account_id is null`,
  );
  t.true(Number(open?.['n']) <= 5000, JSON.stringify(open));
  const again = await authorize(client, { prompt: 'none' }, browser, of);
  t.truthy(new URL(again.page.url).searchParams.get('code'));
});

test('a user has a hundred browsers and grants at most: a new one ends the oldest', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  const client = await newClient({}, of);
  const { browser } = await codeFor(client, user.email, {}, of);
  const database = useDatabase(platform(), of);
  for (const model of ['Session', 'Grant', 'Interaction'])
    await database.query(
      'auth',
      `insert into auth.openid (model, id, payload_sealed, account_id, expires_at)
       select '${model}', sha256(n::text::bytea), '', '${user.id}', now() + interval '1 year' from generate_series(1, 100) n`,
    );
  await codeFor(client, user.email, {}, of);
  const rows = await database.query(
    'auth',
    `select model, count(*)::int as n from auth.openid where account_id = '${user.id}' group by model`,
  );
  for (const { model, n } of rows) t.true(Number(n) <= 100, `${String(model)}: ${String(n)}`);
  const again = await authorize(client, { prompt: 'none' }, browser, of);
  t.is(new URL(again.page.url).searchParams.get('error'), 'login_required', 'the oldest browser is signed out');
});

test('a browser is signed out when its sign-in is as old as one may be, however often it comes', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  const client = await newClient({}, of);
  const { browser } = await codeFor(client, user.email, {}, of);
  const body = { session: { absolute_s: 60, idle_s: 86_400 } };
  await platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, { token: developer().token, body });
  await authorize(client, { prompt: 'none' }, browser, of);
  const [row] = await useDatabase(platform(), of).query(
    'auth',
    `select extract(epoch from expires_at - now())::float8 as s from auth.openid where model = 'Session'`,
  );
  t.true(Number(row?.['s']) <= 60, JSON.stringify(row));
});

test('long queries and forms are refused', async (t) => {
  const client = await newClient();
  t.is((await authorize(client, { state: 'x'.repeat(9000) })).page.status, 414);
  const started = await authorize(client);
  const given = { email: newEmail(), password: 'x'.repeat(200_000) };
  t.true((await started.browser.submit(started.page, '/login', given)).status >= 400);
});

test('rows that have expired are deleted', async (t) => {
  const of = await newProject();
  await signedUp(of);
  const database = useDatabase(platform(), of);
  await database.query(
    'auth',
    `insert into auth.openid (model, id, payload_sealed, expires_at)
     select 'Interaction', sha256(n::text::bytea), '', now() - interval '2 hours' from generate_series(1, 6000) n`,
  );
  const log = memoryLog().log;
  const tenantDb = createTenantDb({ budget: 8, login: (id, role) => tenantLogin(platform(), id, role), log });
  t.teardown(tenantDb.close);
  await platform().db.query('delete from end_user_sweeps where project_id = $1', [of.id]);
  for (let n = 0; n < 5; n += 1) await sweepEndUsers({ db: platform().db, authDb: createAuthDb(tenantDb), log });
  t.deepEqual(await database.query('auth', 'select count(*)::int as n from auth.openid'), [{ n: 0 }]);
});

test('a project that is not there has no issuer', async (t) => {
  for (const id of [crypto.randomUUID(), 'nonsense']) {
    const root = issuer().replace(scene.project().id, id);
    for (const path of ['/authorize', '/.well-known/openid-configuration', '/userinfo'])
      t.true([400, 404].includes((await fetch(root + path)).status), `${id} ${path}`);
  }
});

test('a form with NUL is refused', async (t) => {
  const client = await newClient();
  for (const path of ['/token', '/revoke', '/authorize', '/device/authorize']) {
    const fields = { client_id: client.client_id, nonce: 'a\0b', token: 'a\0b', grant_type: 'refresh_token' };
    t.is((await scene.post(path, null, fields)).status, 400, path);
  }
});
