import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { addMember } from '#test/support/members.ts';
import { startSmtp } from '#test/support/smtp.ts';
import { mailProject } from './scene.ts';

const platform = usePlatform(test);

const settings = {
  host: 'mail.example.com',
  port: 587,
  username: 'shop',
  password: 'S3cret-of-the-Shop',
  from_email: 'shop@example.com',
  from_name: 'The Shop',
};

const privateKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
});
const dkim = { domain: 'example.com', selector: 'mail', private_key: privateKey };

test('without settings there is null, and the test says what to do', async (t) => {
  const { call } = await mailProject(platform());
  const answer = await call('GET', '/email/smtp');
  t.deepEqual([answer.status, answer.body], [200, null]);
  const tried = await call('POST', '/email/smtp/test');
  t.is(tried.status, 409);
  t.is(tried.body.code, 'smtp_not_configured');
  t.is((await call('DELETE', '/email/smtp')).status, 204);
});

test('password and key are shown masked, and stand nowhere but sealed', async (t) => {
  const { project, call } = await mailProject(platform());
  const put = await call('PUT', '/email/smtp', { ...settings, dkim });
  t.is(put.status, 200, put.text);
  t.like(put.body, { ...settings, password: '••••', dkim: { ...dkim, private_key: '••••' } });
  const got = await call('GET', '/email/smtp');
  t.deepEqual(got.body, put.body);
  const rows = await platform().db.query('select * from email_settings where project_id = $1', [project.id]);
  const audit = await platform().db.query('select * from audit_entries where project_id = $1', [project.id]);
  const key = privateKey.split('\n')[3] ?? '-';
  for (const text of [put.text, got.text, JSON.stringify(rows), JSON.stringify(audit), platform().logged()]) {
    t.false(text.includes(settings.password));
    t.false(text.includes(key));
  }
});

test('a change is in the audit log, that of the password alone, too', async (t) => {
  const { project, call } = await mailProject(platform());
  for (const password of ['one', 'two']) await call('PUT', '/email/smtp', { ...settings, password });
  await call('DELETE', '/email/smtp');
  const rows = await platform().db.query<{ action: string }>(
    `select action from audit_entries where project_id = $1 and target_type = 'email_settings' order by created_at`,
    [project.id],
  );
  t.deepEqual(
    rows.map(({ action }) => action),
    ['email_settings.create', 'email_settings.update', 'email_settings.delete'],
  );
});

test('without a password, or with the masked one, the present one stays as long as host, port and user name do', async (t) => {
  const server = await startSmtp({ user: { name: 'shop', password: settings.password } });
  t.teardown(server.close);
  const local = { ...settings, host: '127.0.0.1', port: server.port };
  const { call } = await mailProject(platform(), local);
  for (const password of [undefined, '••••', '']) {
    const answer = await call('PUT', '/email/smtp', { ...local, password, from_name: 'Another' });
    t.is(answer.status, 200, answer.text);
    t.is(answer.body.password, '••••');
  }
  const test = await call('POST', '/email/smtp/test');
  t.true(test.body.ok, test.text);
  for (const change of [{ host: 'localhost' }, { port: server.port + 1 }, { username: 'other' }]) {
    const answer = await call('PUT', '/email/smtp', { ...local, ...change, password: undefined });
    t.is(answer.status, 400);
    t.is(answer.body.code, 'secret_required');
  }
  t.is((await call('PUT', '/email/smtp', { ...local, username: '', password: undefined })).body.password, null);
  const again = await call('PUT', '/email/smtp', { ...local, password: undefined });
  t.is(again.body.code, 'secret_required', 'it was given up with the user name');
});

test('a first password is needed, and a masked one is none; so is the key of DKIM', async (t) => {
  const { call } = await mailProject(platform());
  for (const password of [undefined, '••••']) {
    const answer = await call('PUT', '/email/smtp', { ...settings, password });
    t.deepEqual([answer.status, answer.body.code], [400, 'secret_required']);
  }
  await call('PUT', '/email/smtp', { ...settings, dkim });
  const masked = { ...dkim, private_key: '••••' };
  t.is((await call('PUT', '/email/smtp', { ...settings, dkim: masked })).status, 200);
  const other = await call('PUT', '/email/smtp', { ...settings, dkim: { ...masked, domain: 'example.org' } });
  t.is(other.body.code, 'secret_required');
  t.is((await call('PUT', '/email/smtp', settings)).body.dkim, null);
});

test('a masked password is never sent to a server', async (t) => {
  const server = await startSmtp({ user: { name: 'shop', password: '••••' } });
  t.teardown(server.close);
  const { call } = await mailProject(platform());
  const answer = await call('PUT', '/email/smtp', {
    ...settings,
    host: '127.0.0.1',
    port: server.port,
    password: '••••',
  });
  t.is(answer.body.code, 'secret_required');
});

const bad: Record<string, Record<string, unknown>> = {
  'no host': { host: undefined },
  'an empty host': { host: '' },
  'a host with a line end': { host: 'mail.example.com\r\nx' },
  'a URL for a host': { host: 'smtp://mail.example.com' },
  'a host with a port': { host: 'mail.example.com:25' },
  'a host with a slash': { host: 'mail.example.com/x' },
  'a host with an at sign': { host: 'a@mail.example.com' },
  'port 0': { port: 0 },
  'port 65536': { port: 65_536 },
  'a port as text': { port: '587' },
  'half a port': { port: 1.5 },
  'a user name with a line end': { username: 'a\nb' },
  'a user name with NUL': { username: 'a\0' },
  'a password that is a number': { password: 7 },
  'a sender that is no address': { from_email: 'shop' },
  'a sender with a name': { from_email: 'Shop <shop@example.com>' },
  'two senders': { from_email: 'a@example.com, b@example.com' },
  'a sender with a line end': { from_email: 'a@example.com\nBcc: b@example.com' },
  'a name with a line end': { from_name: 'Shop\r\nBcc: b@example.com' },
  'a name with a line separator': { from_name: 'Shop\u2028' },
  'a name with NUL': { from_name: 'Shop\0' },
  'a name of 201': { from_name: 'x'.repeat(201) },
  'a key that is none': { dkim: { ...dkim, private_key: 'secret' } },
  'a public key': { dkim: { ...dkim, private_key: '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----' } },
  'a key that mail is not signed with': {
    dkim: { ...dkim, private_key: generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }) },
  },
  'a selector with a blank': { dkim: { ...dkim, selector: 'a b' } },
  'a selector with a line end': { dkim: { ...dkim, selector: 'a\r\nb' } },
  'a domain that is none': { dkim: { ...dkim, domain: 'exa mple' } },
  'an unknown field': { colour: 'red' },
};

test('settings that are not valid are 400, each naming its field, and change nothing', async (t) => {
  const { call } = await mailProject(platform(), settings);
  const before = await call('GET', '/email/smtp');
  for (const [what, fields] of Object.entries(bad)) {
    const answer = await call('PUT', '/email/smtp', { ...settings, ...fields });
    t.is(answer.status, 400, `${what}: ${answer.text}`);
    t.is(answer.body.code, 'validation_failed', what);
    t.false(answer.text.includes(settings.password), what);
  }
  t.deepEqual((await call('GET', '/email/smtp')).body, before.body);
});

test('a private address is refused when it is saved', async (t) => {
  const { call } = await mailProject(platform());
  for (const host of ['10.0.0.1', '169.254.169.254', '0.0.0.0', '[fd00::1]', '[::ffff:10.0.0.1]']) {
    const answer = await call('PUT', '/email/smtp', { ...settings, host });
    t.deepEqual([answer.status, answer.body.code], [400, 'egress_refused'], host);
  }
});

test('the server is tried step by step', async (t) => {
  const server = await startSmtp({ user: { name: 'shop', password: 'right' } });
  t.teardown(server.close);
  const scene = await mailProject(platform(), { port: server.port, username: 'shop', password: 'right' });
  const good = await scene.call('POST', '/email/smtp/test');
  t.true(good.body.ok);
  t.deepEqual(
    good.body.steps.map(({ name }: { name: string }) => name),
    ['dns', 'connect', 'tls', 'auth', 'mail'],
  );
  const wrong = {
    host: '127.0.0.1',
    port: server.port,
    username: 'shop',
    password: 'wrong!Pass',
    from_email: 'a@b.co',
  };
  await scene.call('PUT', '/email/smtp', wrong);
  const bad = await scene.call('POST', '/email/smtp/test');
  t.is(bad.status, 200);
  t.like(bad.body.steps.at(-1), { name: 'auth', ok: false });
  t.false(bad.text.includes('wrong!Pass'));
});

test('while the server is tried, it is not tried again', async (t) => {
  const [sockets, server] = [[] as Socket[], createServer((socket) => void sockets.push(socket))];
  t.teardown(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { call } = await mailProject(platform(), { port: (server.address() as AddressInfo).port });
  for (const time of [1, 2]) {
    const connected = once(server, 'connection');
    const first = call('POST', '/email/smtp/test');
    await connected;
    const second = await call('POST', '/email/smtp/test');
    t.deepEqual([second.status, second.body.code], [409, 'conflict'], `the ${time}. time`);
    for (const socket of sockets) socket.destroy();
    t.like((await first).body, { ok: false });
  }
});

test('viewers see, developers too, admins change; others find nothing', async (t) => {
  const { project, call } = await mailProject(platform(), settings);
  const { client } = platform();
  const path = `/projects/${project.id}/email/smtp`;
  for (const role of ['viewer', 'developer'] as const) {
    const { token } = await addMember(platform(), project.orgId, role);
    t.is((await client.call('GET', path, { token })).status, 200);
    t.is((await client.call('PUT', path, { token, body: settings })).status, 403);
    t.is((await client.call('DELETE', path, { token })).status, 403);
    t.is((await client.call('POST', `${path}/test`, { token })).status, 403);
  }
  const stranger = await mailProject(platform());
  for (const [method, below] of [
    ['GET', ''],
    ['PUT', ''],
    ['DELETE', ''],
    ['POST', '/test'],
  ] as const) {
    const answer = await client.call(method, `${path}${below}`, {
      token: stranger.user.token,
      body: method === 'PUT' ? settings : undefined,
    });
    t.is(answer.status, 404);
  }
  t.is((await client.call('GET', path, { key: project.key })).status, 401);
  t.is((await call('GET', '/email/smtp')).body.host, settings.host);
  t.is((await stranger.call('GET', '/email/smtp')).body, null);
});
