import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import test from 'ava';
import Stripe from 'stripe';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const folder = path.resolve(import.meta.dirname, '../../docs/functions');
const platform = usePlatform(test, { settings: { PLINTH_EGRESS_ALLOW: '127.0.0.0/8' } });

let user: TestUser;
let project: TestProject;

test.before('a project with tables', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
  for (const sql of [
    'create table payments (id text primary key, type text)',
    'create table visits (path text)',
    `insert into visits values ('/<b>'), ('/<b>')`,
    'create table oauth_flows (state text primary key, user_id int)',
    `insert into oauth_flows values ('s1', 7)`,
    'create table connections (user_id int, token text)',
    'create table uploads (id int generated always as identity, name text, title text, sha256 text)',
  ])
    await query(sql);
});

const query = async (sql: string) => {
  const { client } = platform();
  const answer = await client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql } });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body.rows as Record<string, unknown>[];
};

/** Deploys an example as a public function; answers its address. */
const deployed = async (name: string, env_vars: Readonly<Record<string, string>> = {}): Promise<string> => {
  const source = await readFile(path.join(folder, 'http', name), 'utf8');
  const language = name.endsWith('.py') ? 'python' : 'javascript';
  const { slug } = await platform().client.deploy(user, project, source, { language, env_vars, access: 'public' });
  return `${platform().base}/p/${project.ref}/functions/v1/${slug}`;
};

test('a Slack slash command is answered when its signature is right', async (t) => {
  const url = await deployed('slack-command.js', { SLACK_SIGNING_SECRET: 'shh' });
  const body = new URLSearchParams({ command: '/weather', text: 'Zürich & more', token: 'x' }).toString();
  const time = String(Math.floor(Date.now() / 1000));
  const signature = `v0=${createHmac('sha256', 'shh').update(`v0:${time}:${body}`).digest('hex')}`;
  const send = (sent: string) =>
    fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-slack-request-timestamp': time,
        'x-slack-signature': signature,
      },
      body: sent,
    });
  const answer = await send(body);
  t.deepEqual(await answer.json(), { response_type: 'in_channel', text: '/weather says: Zürich & more' });
  t.is((await send(`${body}&x=1`)).status, 401);
});

test('a Stripe webhook is taken when its signature is over the bytes that came', async (t) => {
  const url = await deployed('stripe-webhook.js', { STRIPE_WEBHOOK_SECRET: 'whsec_test' });
  const stripe = new Stripe('sk_test_x');
  const payload =
    '{\n  "id": "evt_1",\n  "type": "charge.succeeded",\n  "data": { "object": { "name": "J\\u00fcrg ü" } }\n}';
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret: 'whsec_test' });
  const send = (body: string) =>
    fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': header },
      body,
    });
  for (let times = 0; times < 2; times += 1) t.deepEqual(await (await send(payload)).json(), { received: true });
  t.is((await send(payload.replace('evt_1', 'evt_2'))).status, 400);
  t.is((await send(payload.replaceAll('\n', ''))).status, 400);
  t.deepEqual(await query('select * from payments'), [{ id: 'evt_1', type: 'charge.succeeded' }]);
});

test('an OAuth callback trades its code once and leads back', async (t) => {
  const seen: string[] = [];
  const service = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => seen.push(`${request.headers.authorization} ${chunk.toString()}`));
    request.on('end', () => response.setHeader('content-type', 'application/json').end('{"access_token":"t1"}'));
  }).listen(0, '127.0.0.1');
  await once(service, 'listening');
  const TOKEN_URL = `http://127.0.0.1:${(service.address() as AddressInfo).port}/token`;
  const env = { TOKEN_URL, CLIENT_ID: 'id', CLIENT_SECRET: 'secret', APP_URL: 'https://app.example' };
  const url = await deployed('oauth-callback.js', env);
  const call = (state: string) => fetch(`${url}/callback?code=c1&state=${state}`, { redirect: 'manual' });
  const answer = await call('s1');
  t.is(answer.status, 303);
  t.is(answer.headers.get('location'), 'https://app.example/connected');
  t.deepEqual(seen, [`Basic ${btoa('id:secret')} grant_type=authorization_code&code=c1`]);
  t.deepEqual(await query('select * from connections'), [{ user_id: 7, token: 't1' }]);
  for (const state of ['s1', 'forged']) t.is((await call(state)).status, 400);
  service.close();
  service.closeAllConnections();
});

test('an HTML page is served in a sandbox of its own', async (t) => {
  const answer = await fetch(`${await deployed('page.js')}/%3Cb%3E`);
  t.is(answer.headers.get('content-type'), 'text/html; charset=utf-8');
  t.is(answer.headers.get('cache-control'), 'max-age=60');
  t.regex(answer.headers.get('content-security-policy') ?? '', /^sandbox /);
  t.true((await answer.text()).includes('<h1>/%3Cb%3E</h1>'));
});

test('events arrive as they are made', async (t) => {
  const answer = await fetch(`${await deployed('events.js')}?count=2`, { headers: { accept: 'text/event-stream' } });
  t.is(answer.headers.get('content-type'), 'text/event-stream');
  t.is(await answer.text(), 'event: tick\ndata: {"n":1}\n\nevent: tick\ndata: {"n":2}\n\n');
});

test('a form with a file is read, and its row is written as the caller', async (t) => {
  const url = await deployed('upload.py');
  const form = new FormData();
  form.set('title', 'A title');
  const send = (key: string) => fetch(url, { method: 'POST', headers: { apikey: key }, body: form });
  t.is((await send(project.key)).status, 422);
  form.set('file', new File([Uint8Array.of(0, 1, 255)], 'a.bin'));
  const answer = await send(project.key);
  t.is(answer.status, 201, await answer.clone().text());
  t.deepEqual(await answer.json(), { id: 1, size: 3 });
  t.like((await query('select name, title from uploads'))[0], { name: 'a.bin', title: 'A title' });
});

test('the guide names every example of this kind', async (t) => {
  const guide = await readFile(path.join(folder, 'README.md'), 'utf8');
  for (const name of await readdir(path.join(folder, 'http'))) t.true(guide.includes(`(http/${name})`), name);
});
