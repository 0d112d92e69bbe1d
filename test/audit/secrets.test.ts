import test from 'ava';
import { uniqueName } from '#test/support/client.ts';
import { createOrganization, tokenOfLink } from '#test/support/organization.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { askForReset } from '#test/support/reset.ts';

const platform = usePlatform(test);

/** Everything that the control database holds, as text; bytes as hex digits. */
const dump = async (): Promise<string> => {
  const { db } = platform();
  const tables = await db.query<{ name: string }>(
    `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public'`,
  );
  const parts = await Promise.all(
    tables.map(({ name }) => db.query<{ row: string }>(`select t::text as row from ${name} t`)),
  );
  return parts
    .flat()
    .map(({ row }) => row)
    .join('\n');
};

/** The ways in which a text may stand in a dump. */
const formsOf = (secret: string): string[] => {
  const bytes = Buffer.from(secret);
  return [secret, bytes.toString('hex'), bytes.toString('base64').replace(/=+$/, ''), bytes.toString('base64url')];
};

const resetToken = async (email: string): Promise<string> => {
  const { client } = platform();
  await askForReset(platform(), email);
  const { body } = await client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  const mail = body.mails.find((each: { recipient: string }) => each.recipient === email);
  return /\/reset-password\/(\S+)/.exec(mail.body)?.[1] ?? '';
};

/** Goes through everything that makes or takes a secret, failures included, and answers the secrets. */
const collectSecrets = async (): Promise<Record<string, string>> => {
  const { client } = platform();
  const org = await createOrganization(platform());
  const [email, password] = [`${uniqueName('user')}@example.com`, uniqueName('password-one')];
  const headers = { 'idempotency-key': uniqueName('key') };
  const signed = await client.call('POST', '/auth/signup', { body: { email, password, full_name: 'Ada' } });
  const wrong = uniqueName('password-wrong');
  await client.call('POST', '/auth/login', { body: { email, password: wrong } });
  await client.call('POST', '/auth/login', { body: { email, password: { text: wrong } } });
  await client.call('POST', '/auth/login', { raw: `{"email":"${email}","password":"${wrong}"` });
  const login = await client.call('POST', '/auth/login', { body: { email, password } });
  const refreshed = await client.call('POST', '/auth/refresh', { body: { refresh_token: login.body.refresh_token } });
  await client.call('POST', '/auth/refresh', { body: { refresh_token: login.body.refresh_token } });
  const invited = await org.as('admin', 'POST', '/team/invite', { headers, body: { email, role: 'viewer' } });
  const link = tokenOfLink(invited.body.invite_link);
  await client.call('POST', `/team/invite/${link}/accept`);
  await org.as('owner', 'POST', `/team/invite/${link}/accept`);
  const resent = await org.as('admin', 'POST', `/team/members/${invited.body.id}/resend`);
  const newLink = tokenOfLink(resent.body.invite_link);
  await client.call('POST', `/team/invite/${newLink}/accept`, { token: signed.body.access_token });
  const reset = await resetToken(email);
  await client.call('GET', `/reset-password/${reset}`);
  const newPassword = uniqueName('password-two');
  await client.call('POST', '/auth/reset', { body: { token: reset, password: 'short' } });
  await client.call('POST', '/auth/reset', { body: { token: reset, password: newPassword } });
  const unused = await resetToken(email);
  return {
    password,
    wrong,
    newPassword,
    signUpAccess: signed.body.access_token,
    signUpRefresh: signed.body.refresh_token,
    loginAccess: login.body.access_token,
    loginRefresh: login.body.refresh_token,
    refreshedAccess: refreshed.body.access_token,
    refreshedRefresh: refreshed.body.refresh_token,
    link,
    newLink,
    reset,
    unused,
  };
};

let collected: Promise<Record<string, string>> | undefined;
const secrets = (): Promise<Record<string, string>> => (collected ??= collectSecrets());

test('passwords, tokens and links are nowhere in the database in clear', async (t) => {
  const all = await secrets();
  const text = await dump();
  t.true(text.includes('organization.create'), 'the dump holds the audit log');
  for (const [name, secret] of Object.entries(all)) {
    t.true(secret.length >= 20, name);
    for (const form of formsOf(secret)) t.false(text.includes(form), name);
  }
});

test('passwords, tokens and links are nowhere in the log', async (t) => {
  const all = await secrets();
  const text = platform().logged();
  t.true(text.includes('/auth/login'), 'the log tells of the requests');
  for (const [name, secret] of Object.entries(all)) t.false(text.includes(secret), name);
});

test('API keys and environment variables are neither in the database in clear nor in the log', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const value = uniqueName('env-value');
  const code = 'export default () => process.env.NAME.length';
  const fn = await client.deploy(user, project, code, { env_vars: { NAME: value } });
  await client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: {} });
  const rolled = await client.call('GET', `/projects/${project.id}/api-keys`, { token: user.token });
  const [{ id }] = rolled.body.api_keys;
  const fresh = await client.call('POST', `/projects/${project.id}/api-keys/${id}/roll`, { token: user.token });
  const database = await dump();
  for (const secret of [project.key, project.publishableKey, fresh.body.api_key, value]) {
    t.is(typeof secret, 'string');
    for (const form of formsOf(secret)) t.false(database.includes(form));
    t.false(platform().logged().includes(secret));
  }
});
