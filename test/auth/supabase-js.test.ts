import test from 'ava';
import { newEmail, password, useAuth } from './auth-scene.ts';
import { useDatabase } from '../database/guard-scene.ts';

const { platform, app, project } = useAuth(test);

test('a user signs up, signs out and signs in again', async (t) => {
  const email = newEmail();
  const { auth } = app();
  const up = await auth.signUp({ email, password, options: { data: { name: 'Ada' } } });
  t.is(up.error, null);
  t.is(up.data.user?.email, email);
  t.deepEqual(up.data.user?.user_metadata, { name: 'Ada' });
  t.deepEqual(up.data.user?.app_metadata, { provider: 'email', providers: ['email'] });
  t.is(up.data.user?.identities?.[0]?.provider, 'email');
  t.truthy(up.data.session);
  t.is((await auth.getUser()).data.user?.id, up.data.user?.id);
  t.is((await auth.signOut()).error, null);
  t.is((await auth.getSession()).data.session, null);
  const signedIn = await auth.signInWithPassword({ email: email.toUpperCase(), password });
  t.is(signedIn.error, null);
  t.is(signedIn.data.user?.id, up.data.user?.id);
  t.truthy(signedIn.data.user?.last_sign_in_at);
});

test('a listener hears of each step', async (t) => {
  const { auth } = app();
  const heard: string[] = [];
  const { data } = auth.onAuthStateChange((event) => void heard.push(event));
  await auth.signUp({ email: newEmail(), password });
  await auth.refreshSession();
  await auth.updateUser({ data: { colour: 'green' } });
  await auth.signOut();
  data.subscription.unsubscribe();
  t.deepEqual(heard, ['INITIAL_SESSION', 'SIGNED_IN', 'TOKEN_REFRESHED', 'USER_UPDATED', 'SIGNED_OUT']);
});

test('claims are verified on the client with the published keys', async (t) => {
  const { auth } = app();
  const { data: up } = await auth.signUp({ email: newEmail(), password });
  const { data, error } = await auth.getClaims();
  t.is(error, null);
  t.like(data?.claims, { sub: up.user?.id, role: 'authenticated', aal: 'aal1', is_anonymous: false });
  t.is(data?.header.alg, 'RS256');
  t.is(data?.claims.amr?.length, 1);
});

test('metadata is merged, a name that is null goes, and a new password works at once', async (t) => {
  const email = newEmail();
  const { auth } = app();
  await auth.signUp({ email, password, options: { data: { a: 1, b: 2 } } });
  const updated = await auth.updateUser({ data: { b: null, c: { d: 3 } }, password: 'another long password' });
  t.is(updated.error, null);
  t.deepEqual(updated.data.user?.user_metadata, { a: 1, c: { d: 3 } });
  t.is((await app().auth.signInWithPassword({ email, password })).error?.code, 'invalid_credentials');
  t.is((await app().auth.signInWithPassword({ email, password: 'another long password' })).error, null);
});

test('errors come in the form that the client knows', async (t) => {
  const email = newEmail();
  const { auth } = app();
  const weak = await auth.signUp({ email, password: 'short' });
  t.is(weak.error?.code, 'weak_password');
  t.deepEqual((weak.error as unknown as { reasons: string[] }).reasons, ['length']);
  await auth.signUp({ email, password });
  const again = await app().auth.signUp({ email, password });
  t.is(again.error?.code, 'user_already_exists');
  t.is(again.error?.status, 422);
  const same = await auth.updateUser({ password });
  t.is(same.error?.code, 'same_password');
  t.is((await app().auth.signInAnonymously()).error?.code, 'anonymous_provider_disabled');
  t.is((await app().auth.signUp({ phone: '+4912345', password })).error?.code, 'phone_provider_disabled');
});

test('signing out ends this sign-in, the others, or all', async (t) => {
  const email = newEmail();
  const [one, two, three] = [app(), app(), app()];
  await one.auth.signUp({ email, password });
  for (const { auth } of [two, three]) await auth.signInWithPassword({ email, password });
  await two.auth.signOut({ scope: 'local' });
  t.is((await one.auth.refreshSession()).error, null);
  await one.auth.signOut({ scope: 'others' });
  t.is((await three.auth.refreshSession()).error?.code, 'refresh_token_not_found');
  t.is((await one.auth.refreshSession()).error, null);
  await two.auth.signInWithPassword({ email, password });
  await one.auth.signOut();
  t.is((await two.auth.refreshSession()).error?.code, 'refresh_token_not_found');
});

test('a policy shows each user their own rows, and the owner’s trigger makes a profile with the sign-up', async (t) => {
  const database = useDatabase(platform(), project());
  await database.query(
    'owner',
    `create table if not exists profiles (
       id uuid primary key references auth.users (id) on delete cascade, name text not null)`,
    'alter table profiles enable row level security',
    'grant select on profiles to authenticated, anon',
    'create policy own on profiles for select using (id = auth.uid())',
    `create function handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$
     begin
       insert into public.profiles (id, name) values (new.id, coalesce(new.raw_user_meta_data ->> 'name', 'nobody'));
       return new;
     end $$`,
    'create trigger on_user after insert on auth.users for each row execute function handle_new_user()',
  );
  const [ada, bob] = [app(), app()];
  await ada.auth.signUp({ email: newEmail(), password, options: { data: { name: 'Ada' } } });
  await bob.auth.signUp({ email: newEmail(), password, options: { data: { name: 'Bob' } } });
  t.deepEqual((await ada.from('profiles').select('name')).data, [{ name: 'Ada' }]);
  t.deepEqual((await bob.from('profiles').select('name')).data, [{ name: 'Bob' }]);
  t.deepEqual((await app().from('profiles').select('name')).data, []);
  await database.query('owner', `select auth.drop_trigger('on_user')`);
});
