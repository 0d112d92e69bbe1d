import test from 'ava';
import { useAuth } from '#test/auth/auth-scene.ts';
import { asAdmin } from '#test/support/databases.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { redirectUri, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test, {}));
const { codeFor, exchange, newClient, newProject, platform, post, refresh, signedUp, tokensFor } = scene;

/** Another API process. */
const startOther = async () => {
  const process = startProcess('api/server.ts', { ...environmentOf(platform().config), PORT: '0' });
  const { port } = await process.ready;
  return {
    base: `http://127.0.0.1:${port}`,
    kill: async () => {
      process.child.kill('SIGKILL');
      await process.end;
    },
  };
};

/** Runs `work` while no sign-in can be written in a project. */
const whileHeld = (dbName: string, work: () => Promise<void>): Promise<void> =>
  asAdmin(dbName, async (admin) => {
    await admin.query('begin');
    await admin.query('lock table auth.sessions in exclusive mode');
    await work();
    await admin.query('rollback');
  });

/** Sends a form and waits for no answer: there will be none. */
const send = (url: string, fields: Record<string, string>, headers: Record<string, string> = {}): void =>
  void fetch(url, { method: 'POST', body: new URLSearchParams(fields), headers }).catch(() => undefined);

test('an API that is killed between the code and the tokens leaves a code that is used, and no sign-in', async (t) => {
  t.timeout(longTestMs);
  const of = await newProject();
  const { user } = await signedUp(of);
  const client = await newClient({ application_type: 'spa' }, of);
  const { code, verifier } = await codeFor(client, user.email, {}, of);
  const database = useDatabase(platform(), of);
  const other = await startOther();
  await whileHeld(of.dbName, async () => {
    send(`${other.base}/oauth/${of.id}/token`, {
      grant_type: 'authorization_code',
      client_id: client.client_id,
      code,
      code_verifier: verifier,
      redirect_uri: redirectUri,
    });
    await until(async () => {
      const sql = `select from auth.openid where model = 'AuthorizationCode' and consumed_at is not null`;
      return (await database.query('auth', sql)).length > 0;
    });
    await other.kill();
  });
  const again = await exchange(client, { code, verifier }, {}, of);
  t.deepEqual([again.status, again.body.error], [400, 'invalid_grant']);
  await until(async () => {
    const rows = await database.query('auth', 'select from auth.sessions where client_id is not null');
    return rows.length === 0;
  });
  t.truthy((await tokensFor(client, user.email, {}, of)).access_token, 'the user signs in anew');
});

test('refresh tokens whose trade was killed work once more, of auth/v1 and of clients', async (t) => {
  t.timeout(longTestMs);
  const of = await newProject();
  const session = await signedUp(of);
  const client = await newClient({ application_type: 'spa' }, of);
  const tokens = await tokensFor(client, session.user.email, {}, of);
  const other = await startOther();
  const ofClient = {
    grant_type: 'refresh_token',
    client_id: client.client_id,
    refresh_token: String(tokens.refresh_token),
  };
  await whileHeld(of.dbName, async () => {
    send(`${other.base}/oauth/${of.id}/token`, ofClient);
    const body = JSON.stringify({ refresh_token: session.refresh_token });
    const headers = { apikey: of.publishableKey, 'content-type': 'application/json' };
    const url = `${other.base}/p/${of.ref}/auth/v1/token?grant_type=refresh_token`;
    void fetch(url, { method: 'POST', headers, body }).catch(() => undefined);
    await until(() =>
      asAdmin('postgres', async (admin) => {
        const sql = `select from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'`;
        return (await admin.query(sql, [of.dbName])).rows.length >= 2;
      }),
    );
    await other.kill();
  });
  t.is((await refresh(session.refresh_token, of)).status, 200);
  t.is((await post('/token', null, ofClient, { of })).status, 200);
});

test('changes of clients, settings and keys are seen by another API within a second', async (t) => {
  t.timeout(longTestMs);
  const of = await newProject();
  const { user } = await signedUp(of);
  const client = await newClient({}, of);
  const tokens = await tokensFor(client, user.email, {}, of);
  const other = await platform().startApi();
  const { client: api } = platform();
  const { token } = scene.developer();
  const ask = (fields: Record<string, string>) =>
    fetch(`${other}/oauth/${of.id}/token`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: client.client_id, ...fields }),
    });
  const credentials = { grant_type: 'client_credentials', client_secret: client.client_secret ?? '' };
  t.is((await ask(credentials)).status, 400, 'known there, and not allowed this grant');
  const introspect = () =>
    fetch(`${other}/oauth/${of.id}/introspect`, {
      method: 'POST',
      body: new URLSearchParams({
        client_id: client.client_id,
        client_secret: client.client_secret ?? '',
        token: tokens.access_token,
      }),
    });
  const isActive = async (): Promise<boolean> => ((await (await introspect()).json()) as { active: boolean }).active;
  t.true(await isActive());
  const within = async (what: string, isSeen: () => Promise<boolean>): Promise<void> => {
    await until(isSeen);
    t.pass(what);
  };
  const rotated = await api.call('POST', `/projects/${of.id}/auth/keys/rotate`, {
    token,
    body: { overlap_seconds: 0 },
  });
  t.is(rotated.status, 200);
  await within('keys', async () => !(await isActive()));
  const changed = await api.call('POST', `/projects/${of.id}/oauth/clients/${client.client_id}/secret`, {
    token,
    body: {},
  });
  t.is(changed.status, 200);
  await within('a new secret', async () => (await introspect()).status === 401);
  const branding = { branding: { color: '#123456' } };
  await api.call('PATCH', `/projects/${of.id}/auth/settings`, { token, body: branding });
  const page = async () => (await fetch(`${other}/oauth/${of.id}/device`)).text();
  await within('settings', async () => (await page()).includes('#123456'));
  await api.call('DELETE', `/projects/${of.id}/oauth/clients/${client.client_id}`, { token });
  const secret = String(changed.body.client_secret);
  await within(
    'a client that is gone',
    async () => (await ask({ ...credentials, client_secret: secret })).status === 401,
  );
});
