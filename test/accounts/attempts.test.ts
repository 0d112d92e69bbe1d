import test from 'ava';
import { sweepFailures } from '#domain/accounts/proof.ts';
import { type Answer, uniqueName } from '#test/support/client.ts';
import { addFactor, confirmAddress, wrongCode } from '#test/support/factor.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { linkTokenTo } from '#test/support/platform-mail.ts';
import { askForReset } from '#test/support/reset.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const settings = { PLINTH_RATE_LIMITS: 'on', PLINTH_RATE_LIMIT_SIGN_IN: '100000' };
const platform = usePlatform(test, { worker: false, settings });
const unlimited = usePlatform(test, { worker: false });

const logIn = (email: string, password: string, at = platform): Promise<Answer> =>
  at().client.call('POST', '/auth/login', { body: { email, password } });

const guess = (email: string, count: number, at = platform): Promise<Answer[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => logIn(i % 2 === 0 ? email : email.toUpperCase(), 'wrong', at)));

test.serial(
  'after ten failures an account is closed for a while, for the right password, too, and for nobody else',
  async (t) => {
    const [user, other] = [await platform().client.signUp(), await platform().client.signUp()];
    t.deepEqual(statusCounts(await guess(user.email, 15)), { 401: 10, 429: 5 });
    const refused = await logIn(user.email, user.password);
    t.is(refused.status, 429);
    t.is(refused.body.code, 'rate_limited');
    const seconds = Number(refused.headers.get('retry-after'));
    t.true(seconds > 0 && seconds <= 900);
    t.is((await logIn(other.email, other.password)).status, 200);
    t.is((await platform().client.call('GET', '/auth/me', { token: user.token })).status, 200);
  },
);

test.serial('an unknown address is closed alike', async (t) => {
  t.deepEqual(statusCounts(await guess(`${uniqueName('nobody')}@example.com`, 12)), { 401: 10, 429: 2 });
});

test.serial('a sign-in forgets the failures before it', async (t) => {
  const user = await platform().client.signUp();
  for (let round = 0; round < 3; round += 1) {
    t.deepEqual(statusCounts(await guess(user.email, 9)), { 401: 9 });
    t.is((await logIn(user.email, user.password)).status, 200);
  }
});

test.serial('failures are forgotten after fifteen minutes, and swept', async (t) => {
  const { db, client } = platform();
  const user = await client.signUp();
  await guess(user.email, 11);
  t.is((await logIn(user.email, user.password)).status, 429);
  await db.query(`update sign_in_failures set began_at = now() - interval '15 minutes 1 second'`);
  t.is((await logIn(user.email, user.password)).status, 200);
  await guess(user.email, 1);
  await db.query(`update sign_in_failures set began_at = now() - interval '15 minutes 1 second'`);
  await sweepFailures(db);
  t.deepEqual(await db.query('select from sign_in_failures'), []);
});

test.serial('a reset by mail opens the account again', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  await guess(user.email, 11);
  await askForReset(platform(), user.email);
  const { body } = await client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  const mail = body.mails.find(({ recipient }: { recipient: string }) => recipient === user.email);
  const token = /reset-password\/(\S+)/.exec(mail.body)?.[1];
  t.is((await client.call('POST', '/auth/reset', { body: { token, password: 'a new password' } })).status, 204);
  t.is((await logIn(user.email, 'a new password')).status, 200);
});

test.serial('who knows the password guesses no more than ten codes, however often they sign in', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { secret } = await addFactor(platform(), user);
  const answers: Answer[] = [];
  for (let i = 0; i < 12; i += 1) {
    const started = await logIn(user.email, user.password);
    answers.push(
      started.status === 429
        ? started
        : await client.call('POST', '/auth/login/factor', {
            body: { factor_token: started.body.details.factor_token, code: wrongCode(secret) },
          }),
    );
  }
  t.deepEqual(statusCounts(answers), { 401: 10, 429: 2 });
  t.is((await logIn(user.email, user.password)).status, 429);
});

test.serial(
  'who reads the mail of a user guesses no more than ten codes, however often they reset the password',
  async (t) => {
    const { client } = platform();
    const user = await client.signUp();
    await confirmAddress(platform(), user.id);
    const { secret } = await addFactor(platform(), user);
    const guessCodes = async (password: string): Promise<Answer[]> => {
      const answers: Answer[] = [];
      for (let i = 0; i < 6; i += 1) {
        const started = await logIn(user.email, password);
        const body = { factor_token: started.body.details.factor_token, code: wrongCode(secret) };
        answers.push(await client.call('POST', '/auth/login/factor', { body }));
      }
      return answers;
    };
    const before = await guessCodes(user.password);
    await askForReset(platform(), user.email);
    const token = await linkTokenTo(platform(), user.email, 'reset-password');
    t.is((await client.call('POST', '/auth/reset', { body: { token, password: 'a new password' } })).status, 204);
    t.deepEqual(statusCounts([...before, ...(await guessCodes('a new password'))]), { 401: 10, 429: 2 });
  },
);

test.serial('a stolen access token guesses no more than ten passwords', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const change = () =>
    client.call('PATCH', '/auth/me', {
      token: user.token,
      body: { password: { old: 'wrong', new: 'a new password' } },
    });
  const remove = () => client.call('DELETE', '/auth/me', { token: user.token, body: { password: 'wrong' } });
  const move = () =>
    client.call('PATCH', '/auth/me', {
      token: user.token,
      body: { email: `${uniqueName('new')}@example.com`, current_password: 'wrong' },
    });
  const addOne = () => client.call('POST', '/auth/factors', { token: user.token, body: { password: 'wrong' } });
  const answers = await Promise.all([change, remove, move, addOne].flatMap((ask) => Array.from({ length: 3 }, ask)));
  t.deepEqual(statusCounts(answers), { 401: 10, 429: 2 });
});

test.serial('whoever knows the password and has an access token guesses no more than ten codes', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { secret } = await addFactor(platform(), user);
  const body = { password: user.password, code: wrongCode(secret) };
  const remove = () => client.call('DELETE', '/auth/me', { token: user.token, body });
  const answers: Answer[] = [];
  for (let i = 0; i < 12; i += 1) answers.push(await remove());
  t.deepEqual(statusCounts(answers), { 401: 10, 429: 2 });
});

test.serial('where rate limits are off nothing is counted', async (t) => {
  const user = await unlimited().client.signUp();
  t.deepEqual(statusCounts(await guess(user.email, 12, unlimited)), { 401: 12 });
  t.is((await logIn(user.email, user.password, unlimited)).status, 200);
  t.deepEqual(await unlimited().db.query('select from sign_in_failures'), []);
});
