import test from 'ava';
import { useDatabase } from '../database/guard-scene.ts';
import { type AppSession, newEmail, password, useAuth } from './auth-scene.ts';

const { ask, developer, newProject, platform, project, refresh, signIn, signedUp } = useAuth(test);

const sessionOf = ({ access_token: token }: AppSession): string =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()).session_id;

/** Sets a session back in time. */
const age = (session: AppSession, column: 'created_at' | 'rotated_at', interval: string) =>
  useDatabase(platform(), project()).query(
    'auth',
    `update auth.sessions set ${column} = ${column} - interval '${interval}' where id = '${sessionOf(session)}'`,
  );

test('a refresh token that comes 20 times at once is rotated once, and all get the same answer', async (t) => {
  const session = await signedUp();
  const answers = await Promise.all(Array.from({ length: 20 }, () => refresh(session.refresh_token)));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  t.is(new Set(answers.map(({ text }) => text)).size, 1);
  const [answer] = answers;
  t.not(answer?.body.refresh_token, session.refresh_token);
  t.is((await refresh(answer?.body.refresh_token)).status, 200);
});

test('the token before the last ends the sign-in once its successor was used', async (t) => {
  const first = await signedUp();
  const second = (await refresh(first.refresh_token)).body;
  t.is((await refresh(first.refresh_token)).status, 200);
  const third = (await refresh(second.refresh_token)).body;
  const reused = await refresh(first.refresh_token);
  t.is(reused.status, 400);
  t.is(reused.body.error_code, 'refresh_token_not_found');
  t.is((await refresh(third.refresh_token)).status, 400);
});

test('a token that is repeated after 31 seconds ends the sign-in', async (t) => {
  const first = await signedUp();
  const second = (await refresh(first.refresh_token)).body;
  await age(second, 'rotated_at', '31 seconds');
  t.is((await refresh(first.refresh_token)).status, 400);
  t.is((await refresh(second.refresh_token)).status, 400);
});

test('a sign-in that is idle for 30 days or 90 days old ends', async (t) => {
  const [idle, old, fine] = [await signedUp(), await signedUp(), await signedUp()];
  await age(idle, 'rotated_at', '30 days 1 minute');
  await age(old, 'created_at', '90 days 1 minute');
  await age(fine, 'created_at', '89 days');
  t.is((await refresh(idle.refresh_token)).status, 400);
  t.is((await refresh(old.refresh_token)).status, 400);
  t.is((await refresh(fine.refresh_token)).status, 200);
});

test('made-up, changed and foreign tokens are refused alike', async (t) => {
  const session = await signedUp();
  const other = await signedUp(await newProject());
  const bytes = Buffer.from(session.refresh_token.slice('plinth_ur_'.length), 'base64url');
  bytes.writeUInt32BE(1, 16);
  const changed = `plinth_ur_${bytes.toString('base64url')}`;
  const tokens = [changed, other.refresh_token, 'plinth_ur_', 'x', `plinth_ur_${'A'.repeat(70)}`, 'x'.repeat(4096)];
  const answers = await Promise.all(tokens.map((token) => refresh(token)));
  for (const { status, body } of answers) {
    t.is(status, 400);
    t.is(body.error_code, 'refresh_token_not_found');
  }
  t.is((await refresh(session.refresh_token)).status, 200);
  t.is((await ask('POST', '/token?grant_type=refresh_token', { body: {} })).body.error_code, 'validation_failed');
});

test('a new password ends the other sign-ins and not this one', async (t) => {
  const email = newEmail();
  const here = await signedUp(project(), email);
  const elsewhere = (await signIn(email)).body;
  const body = { password: 'another long password' };
  t.is((await ask('PUT', '/user', { token: here.access_token, body })).status, 200);
  t.is((await refresh(elsewhere.refresh_token)).status, 400);
  t.is((await refresh(here.refresh_token)).status, 200);
});

test('an old sign-in changes the password only with the present one', async (t) => {
  const session = await signedUp();
  const provedLongAgo = Math.floor(Date.now() / 1000) - 25 * 3600;
  await useDatabase(platform(), project()).query(
    'auth',
    `update auth.sessions set amr = '[{"method":"password","timestamp":${provedLongAgo}}]' where id = '${sessionOf(session)}'`,
  );
  const change = (current?: string) => {
    const body = { password: 'another long password', ...(current !== undefined && { current_password: current }) };
    return ask('PUT', '/user', { token: session.access_token, body });
  };
  for (const current of [undefined, 'wrong password']) {
    const refused = await change(current);
    t.is(refused.status, 401);
    t.is(refused.body.error_code, 'reauthentication_needed');
  }
  t.is((await change(password)).status, 200);
});

test('with one session per user a new sign-in ends the earlier ones', async (t) => {
  const of = await newProject();
  const settings = `/projects/${of.id}/auth/settings`;
  const { client } = platform();
  const body = { session: { single: true } };
  t.is((await client.call('PATCH', settings, { token: developer().token, body })).status, 200);
  const email = newEmail();
  const first = await signedUp(of, email);
  const second = await signIn(email, password, of);
  t.is((await refresh(first.refresh_token, of)).status, 400);
  t.is((await refresh(second.body.refresh_token, of)).status, 200);
});
