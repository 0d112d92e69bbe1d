import test from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { until } from '#test/support/until.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const limited = { PLINTH_RATE_LIMITS: 'on', PLINTH_RATE_LIMIT_SIGN_IN: '100000' };
const { ask, developer, newProject, platform, signIn, signedUp } = useAuth(test, { settings: limited });

test('after ten failures an address is refused, also with the right password, and others are not', async (t) => {
  const of = await newProject();
  const [{ user }, other] = [await signedUp(of), await signedUp(of)];
  const wrong = await Promise.all(Array.from({ length: 20 }, () => signIn(user.email, 'wrong password', of)));
  t.is(wrong.filter(({ status }) => status === 400).length, 10);
  t.is(wrong.filter(({ status }) => status === 429).length, 10);
  const refused = await signIn(user.email, password, of);
  t.deepEqual([refused.status, refused.body.error_code], [429, 'over_request_rate_limit']);
  t.true(Number(refused.headers.get('retry-after')) > 0);
  t.is((await signIn(other.user.email, password, of)).status, 200);
  await useDatabase(platform(), of).query('auth', `update auth.counts set began_at = now() - interval '16 minutes'`);
  t.is((await signIn(user.email, password, of)).status, 200);
});

test('an unknown address is counted as a known one is', async (t) => {
  const of = await newProject();
  const email = newEmail();
  for (let n = 0; n < 10; n += 1) t.is((await signIn(email, 'wrong password', of)).status, 400);
  t.is((await signIn(email, 'wrong password', of)).status, 429);
});

test('fifty failures of one network for any addresses are the end, and not for other projects', async (t) => {
  const [of, other] = [await newProject(), await newProject()];
  const { user } = await signedUp(of);
  for (let n = 0; n < 50; n += 1) t.is((await signIn(newEmail(), 'wrong password', of)).status, 400);
  t.is((await signIn(user.email, password, of)).status, 429);
  t.is((await signIn((await signedUp(other)).user.email, password, other)).status, 200);
});

test('a sign-in forgets the failures before it', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  for (let round = 0; round < 3; round += 1) {
    for (let n = 0; n < 9; n += 1) t.is((await signIn(user.email, 'wrong password', of)).status, 400);
    t.is((await signIn(user.email, password, of)).status, 200);
  }
});

test('five mails go to an address in an hour, and what is beyond is answered alike', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  const { client, db } = platform();
  const recover = () =>
    client.call('POST', `/p/${of.ref}/auth/v1/recover`, { key: of.publishableKey, body: { email: user.email } });
  const answers = await Promise.all(Array.from({ length: 8 }, recover));
  t.deepEqual([...new Set(answers.map(({ status, text }) => `${status} ${text}`))], ['200 {}']);
  const left = async () => (await db.query('select from end_user_mails where project_id = $1', [of.id])).length;
  await until(async () => (await left()) === 0);
  t.is((await db.query('select from emails where project_id = $1', [of.id])).length, 5);
});

test('five hundred requests for mails of a project wait at most, and those of another one are taken', async (t) => {
  const [of, other] = [await newProject(), await newProject()];
  const { client, db } = platform();
  const { user } = await signedUp(other);
  await db.query(
    `insert into end_user_mails (id, project_id, order_sealed, next_at)
     select gen_random_uuid(), $1, '\\x00', now() + interval '1 hour' from generate_series(1, 500)`,
    [of.id],
  );
  const recover = ({ ref, publishableKey: key }: TestProject, email: string) =>
    client.call('POST', `/p/${ref}/auth/v1/recover`, { key, body: { email } });
  t.is((await recover(of, newEmail())).status, 200);
  t.is((await db.query('select from end_user_mails where project_id = $1', [of.id])).length, 500);
  t.is((await recover(other, user.email)).status, 200);
  await until(async () => (await db.query('select from emails where project_id = $1', [other.id])).length === 1);
});

test('one network makes thirty users without an address in an hour', async (t) => {
  const of = await newProject();
  const body = { anonymous: true };
  await platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, { token: developer().token, body });
  const answers = [];
  for (let n = 0; n < 31; n += 1) answers.push(await ask('POST', '/signup', { body: { data: {} } }, of));
  t.is(answers.filter(({ status }) => status === 200).length, 30);
  t.is(answers.at(-1)?.body.error_code, 'over_request_rate_limit');
});

const countsOf = async (of: TestProject) =>
  (await useDatabase(platform(), of).query('auth', 'select count(*)::int as n from auth.counts')) as { n: number }[];

test('a network makes three hundred users and asks for three hundred mails in an hour', async (t) => {
  const of = await newProject();
  await ask('POST', '/signup', { body: { email: newEmail(), password } }, of);
  await ask('POST', '/recover', { body: { email: newEmail() } }, of);
  await useDatabase(platform(), of).query('auth', 'update auth.counts set number = 299');
  t.is((await ask('POST', '/signup', { body: { email: newEmail(), password } }, of)).status, 200);
  t.is((await ask('POST', '/recover', { body: { email: newEmail() } }, of)).status, 200);
  for (const path of ['/signup', '/recover', '/otp', '/magiclink', '/resend']) {
    const refused = await ask('POST', path, { body: { email: newEmail(), password, type: 'signup' } }, of);
    t.deepEqual([refused.status, refused.body.error_code], [429, 'over_request_rate_limit'], path);
  }
});

test('guesses from a network that is over the limit leave nothing behind, and old counts go with new ones', async (t) => {
  const of = await newProject();
  await signIn(newEmail(), password, of);
  const database = useDatabase(platform(), of);
  await database.query('auth', 'update auth.counts set number = 50 where number = 1');
  const before = await countsOf(of);
  for (let n = 0; n < 10; n += 1) t.is((await signIn(newEmail(), password, of)).status, 429);
  t.deepEqual(await countsOf(of), before);
  await database.query(
    'auth',
    `insert into auth.counts (key, number, began_at)
     select sha256(n::text::bytea), 1, now() - interval '2 hours' from generate_series(1, 100) n`,
  );
  for (let n = 0; n < 34; n += 1) await signIn(newEmail(), password, of);
  t.deepEqual(await countsOf(of), before);
});

test('whoever has stolen an old sign-in does not guess the present password', async (t) => {
  const of = await newProject();
  const { access_token: token } = await signedUp(of);
  const database = useDatabase(platform(), of);
  await database.query('auth', `update auth.sessions set amr = jsonb_set(amr, '{0,timestamp}', '1')`);
  const change = (current: string) =>
    ask('PUT', '/user', { token, body: { password: 'another long password', current_password: current } }, of);
  for (let n = 0; n < 10; n += 1) t.is((await change('wrong password')).body.error_code, 'reauthentication_needed');
  t.is((await change(password)).body.error_code, 'over_request_rate_limit');
  await database.query('auth', `update auth.counts set began_at = now() - interval '16 minutes'`);
  t.is((await change(password)).status, 200);
});

test('sign-ins of one user at the same moment wait for each other in one order', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  for (let n = 0; n < 5; n += 1) {
    const answers = await Promise.all(Array.from({ length: 9 }, () => signIn(user.email, password, of)));
    t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  }
});
