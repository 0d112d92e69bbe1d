import test from 'ava';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password } from './auth-scene.ts';
import { useAuthMails } from './mail-scene.ts';

const scene = useAuthMails(test);
const { app, ask, mailProject, mailsTo, platform, developer, newProject, signIn, signedUp } = scene;

const allow = async (of: { id: string }, body: object = { anonymous: true }) =>
  platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, { token: developer().token, body });

test('nobody signs in without an address unless the project says so', async (t) => {
  const of = await newProject();
  const { error } = await app(of).auth.signInAnonymously();
  t.is(error?.code, 'anonymous_provider_disabled');
  t.is((await ask('GET', '/settings', {}, of)).body.external.anonymous_users, false);
  await allow(of, { anonymous: true, signup: 'invite' });
  t.is((await app(of).auth.signInAnonymously()).error?.code, 'anonymous_provider_disabled');
});

test('supabase-js signs somebody in without an address, who gets one and a password later', async (t) => {
  const of = await newProject();
  await allow(of);
  const client = app(of);
  const { data } = await client.auth.signInAnonymously({ options: { data: { cart: 7 } } });
  t.true(data.user?.is_anonymous);
  t.is(data.user?.email ?? null, null);
  t.deepEqual(data.user?.user_metadata, { cart: 7 });
  const claims = (await client.auth.getClaims()).data?.claims;
  t.like(claims, { is_anonymous: true, sub: data.user?.id, amr: [{ method: 'anonymous' }] });
  t.is((await client.auth.refreshSession()).error, null);
  const email = newEmail();
  const { data: changed, error } = await client.auth.updateUser({ email, password });
  t.is(error, null);
  t.like(changed.user, { id: data.user?.id, email, is_anonymous: false });
  t.deepEqual(changed.user?.app_metadata, { provider: 'email', providers: ['email'] });
  t.is(changed.user?.identities?.length, 1);
  t.is((await signIn(email, password, of)).body.user.id, data.user?.id);
});

test('where addresses are confirmed, the new one counts once its link was used', async (t) => {
  const of = await mailProject({ anonymous: true, confirm_email: true });
  const client = app(of);
  const { data } = await client.auth.signInAnonymously();
  const email = newEmail();
  t.is((await client.auth.updateUser({ email })).data.user?.is_anonymous, true);
  const [mail] = await mailsTo(email);
  const { data: verified } = await app(of).auth.verifyOtp({ email, token: mail?.code ?? '', type: 'email_change' });
  t.like(verified.user, { id: data.user?.id, email, is_anonymous: false });
});

test('an address of somebody else is not taken over', async (t) => {
  const of = await newProject();
  await allow(of);
  const { user } = await signedUp(of);
  const client = app(of);
  await client.auth.signInAnonymously();
  t.is((await client.auth.updateUser({ email: user.email })).error?.code, 'email_exists');
});

test('a list shows a user without an address', async (t) => {
  const of = await newProject();
  await allow(of);
  const { data } = await app(of).auth.signInAnonymously();
  const [row] = await useDatabase(platform(), of).query('auth', `select is_anonymous, email from auth.users`);
  t.deepEqual(row, { is_anonymous: true, email: null });
  const listed = await platform().client.call('GET', `/projects/${of.id}/users`, { token: developer().token });
  t.like(listed.body.users[0], { id: data.user?.id, email: null, providers: [] });
});
