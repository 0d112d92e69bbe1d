import { request } from 'node:http';
import test from 'ava';
import { untilBlocked } from '#test/support/blocked.ts';
import { type Answer, type TestUser, uniqueName } from '#test/support/client.ts';
import {
  type Attempt,
  badEmails,
  brokenText,
  expectFieldRefused,
  expectShapeRefused,
  noText,
} from '#test/support/malformed.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { untilResetsAreSent } from '#test/support/reset.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test, { worker: false, settings: { PLINTH_BASE_URL: 'https://plinth.example/' } });

interface Mail {
  readonly recipient: string;
  readonly subject: string;
  readonly body: string;
}

const mailsTo = async (email: string): Promise<Mail[]> => {
  await untilResetsAreSent(platform());
  const { body } = await platform().client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  return body.mails.filter(({ recipient }: Mail) => recipient === email);
};

const forgot = (email: unknown): Promise<Answer> => platform().client.call('POST', '/auth/forgot', { body: { email } });
const reset = (token: unknown, password: unknown): Promise<Answer> =>
  platform().client.call('POST', '/auth/reset', { body: { token, password } });
const logIn = (user: TestUser, password: string): Promise<Answer> =>
  platform().client.call('POST', '/auth/login', { body: { email: user.email, password } });

const tokenIn = ({ body }: Mail): string => {
  const found = /https:\/\/plinth\.example\/reset-password\/(\S+)\n/.exec(body)?.[1];
  if (found === undefined) throw new Error(`no reset link in ${body}`);
  return found;
};

/** Tokens of new reset links, the newest first. */
const askForLinks = async (user: TestUser, count = 1): Promise<string[]> => {
  for (let i = 0; i < count; i += 1) await forgot(user.email);
  return (await mailsTo(user.email)).slice(0, count).map(tokenIn);
};

const askForLink = async (user: TestUser): Promise<string> => {
  const [token] = await askForLinks(user);
  if (token === undefined) throw new Error('no mail came');
  return token;
};

test('a reset link sets a new password, once', async (t) => {
  const user = await platform().client.signUp();
  const token = await askForLink(user);
  const done = await reset(token, 'a new password');
  t.is(done.status, 204);
  t.is(done.text, '');
  t.is((await logIn(user, user.password)).status, 401);
  t.is((await logIn(user, 'a new password')).status, 200);
  const again = await reset(token, 'yet another password');
  t.is(again.status, 410);
  t.is(again.body.code, 'expired');
  t.is((await logIn(user, 'a new password')).status, 200);
});

test('a reset ends all sign-ins and all other links of the user, and nobody else’s', async (t) => {
  const { client } = platform();
  const [user, other] = await Promise.all([client.signUp(), client.signUp()]);
  const second = (await logIn(user, user.password)).body;
  const othersLink = await askForLink(other);
  const [newest = '', older = ''] = await askForLinks(user, 2);
  t.is((await reset(newest, 'a new password')).status, 204);
  for (const token of [user.token, second.access_token]) {
    t.is((await client.call('GET', '/auth/me', { token })).status, 401);
  }
  for (const refreshToken of [user.refreshToken, second.refresh_token]) {
    t.is((await client.call('POST', '/auth/refresh', { body: { refresh_token: refreshToken } })).status, 401);
  }
  t.is((await reset(older, 'a third password')).status, 410);
  t.is((await client.call('GET', '/auth/me', { token: other.token })).status, 200);
  t.is((await reset(othersLink, 'a new password')).status, 204);
});

test('an unknown address gets the same answer and no mail', async (t) => {
  const user = await platform().client.signUp();
  const nobody = `${uniqueName('nobody')}@example.com`;
  const [known, unknown] = [await forgot(user.email), await forgot(nobody)];
  t.is(known.status, 202);
  t.deepEqual([unknown.status, unknown.text], [known.status, known.text]);
  t.is((await mailsTo(user.email)).length, 1);
  t.is((await mailsTo(nobody)).length, 0);
});

test('the mail goes to the address of the account, however it was asked for', async (t) => {
  const user = await platform().client.signUp();
  t.is((await forgot(user.email.toUpperCase())).status, 202);
  const [mail] = await mailsTo(user.email);
  t.is(mail?.subject, 'Reset your password');
});

test('the link does not follow the host of the request', async (t) => {
  const user = await platform().client.signUp();
  const body = JSON.stringify({ email: user.email });
  const headers = {
    host: 'evil.example',
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'ftp',
    'content-type': 'application/json',
    'content-length': body.length,
  };
  const status = await new Promise((resolve, reject) => {
    const sent = request(`${platform().base}/auth/forgot`, { method: 'POST', headers }, (res) => {
      res.resume().on('end', () => resolve(res.statusCode));
    });
    sent.on('error', reject).end(body);
  });
  t.is(status, 202);
  const [mail] = await mailsTo(user.email);
  t.notRegex(mail?.body ?? 'evil', /evil/);
  t.regex(mail?.body ?? '', /:\nhttps:\/\/plinth\.example\/reset-password\/plinth_reset_[\w-]{43}\n/);
});

test('however often a stranger asks, a mailbox gets five links; one that is used makes room', async (t) => {
  const user = await platform().client.signUp();
  const answers = await Promise.all(Array.from({ length: 20 }, () => forgot(user.email)));
  t.true(answers.every(({ status }) => status === 202));
  const mails = await mailsTo(user.email);
  t.is(mails.length, 5);
  t.is((await reset(tokenIn(mails[4] as Mail), 'a new password')).status, 204);
  await forgot(user.email);
  t.is((await mailsTo(user.email)).length, 6);
});

test('a link that is too old is refused', async (t) => {
  const user = await platform().client.signUp();
  const token = await askForLink(user);
  await platform().db.query(`update password_resets set expires_at = now() where user_id = $1`, [user.id]);
  const answer = await reset(token, 'a new password');
  t.is(answer.status, 410);
  t.is(answer.body.code, 'expired');
  t.is((await logIn(user, user.password)).status, 200);
});

test('links live an hour', async (t) => {
  const user = await platform().client.signUp();
  await forgot(user.email);
  await untilResetsAreSent(platform());
  const [row] = await platform().db.query<{ seconds: number }>(
    'select extract(epoch from expires_at - now())::int as seconds from password_resets where user_id = $1',
    [user.id],
  );
  t.true(row !== undefined && row.seconds > 3500 && row.seconds <= 3600);
});

test('a password that is refused does not use the link up', async (t) => {
  const user = await platform().client.signUp();
  const token = await askForLink(user);
  t.is((await reset(token, 'short')).status, 400);
  t.is((await reset(token, 'long enough')).status, 204);
});

/** Lets all these resets of a user come to the point where they wait for each other, and then go. */
const atOnce = async (user: TestUser, tokens: readonly string[]): Promise<Answer[]> => {
  const { db } = platform();
  const { running } = await db.transaction(async (tx) => {
    await tx.query('select from users where id = $1 for no key update', [user.id]);
    const started = tokens.map((token, i) => reset(token, `password number ${i}`));
    await untilBlocked(db, tokens.length);
    return { running: started };
  });
  return Promise.all(running);
};

test.serial('of several resets with one link at once one wins', async (t) => {
  const user = await platform().client.signUp();
  const token = await askForLink(user);
  const answers = await atOnce(user, [token, token, token, token]);
  t.deepEqual(statusCounts(answers), { 204: 1, 410: 3 });
  const winner = answers.findIndex(({ status }) => status === 204);
  t.is((await logIn(user, `password number ${winner}`)).status, 200);
});

test.serial('of several links of a user that are used at once one wins', async (t) => {
  const user = await platform().client.signUp();
  const links = await askForLinks(user, 4);
  t.deepEqual(statusCounts(await atOnce(user, links)), { 204: 1, 410: 3 });
});

test('of twenty resets with one link at once one wins', async (t) => {
  const user = await platform().client.signUp();
  const token = await askForLink(user);
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => reset(token, `password number ${i}`)));
  t.deepEqual(statusCounts(answers), { 204: 1, 410: 19 });
});

test('a reset token is no other token, and no other token resets', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const token = await askForLink(user);
  t.is((await client.call('GET', '/auth/me', { token })).status, 401);
  t.is((await client.call('POST', '/auth/refresh', { body: { refresh_token: token } })).status, 401);
  for (const other of [user.token, user.refreshToken, '', ' ', token.slice(0, -1), `${token} `, "' or true --"]) {
    t.is((await reset(other, 'a new password')).status, 410, other);
  }
  t.is((await reset(token, 'a new password')).status, 204);
});

test('malformed requests are refused field by field', async (t) => {
  const { client } = platform();
  const requested: Attempt = { client, path: '/auth/forgot', good: { email: 'nobody@example.com' } };
  await expectShapeRefused(t, requested);
  await expectFieldRefused(t, requested, 'email', [...noText, ...badEmails]);
  const set: Attempt = { client, path: '/auth/reset', good: { token: 'plinth_reset_x', password: 'long enough' } };
  await expectShapeRefused(t, set);
  await expectFieldRefused(t, set, 'token', [...noText, ...brokenText('plinth_reset_x'), 'x'.repeat(201)]);
  await expectFieldRefused(t, set, 'password', [...noText, ...brokenText('long enough'), '1234567', 'x'.repeat(129)]);
});
