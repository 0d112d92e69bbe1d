import test from 'ava';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { askForReset } from '#test/support/reset.ts';

const platform = usePlatform(test, { worker: false });

const read = (query = '', token = opsToken) => platform().client.call('GET', `/ops/api/mail${query}`, { token });

test.serial('operators read the mail of the platform, the newest first', async (t) => {
  const { client } = platform();
  const [one, other] = [await client.signUp(), await client.signUp()];
  for (const { email } of [one, other]) await askForReset(platform(), email);
  const { status, body } = await read();
  t.is(status, 200);
  const recipients = body.mails.map((mail: { recipient: string }) => mail.recipient);
  t.deepEqual(recipients, [other.email, one.email]);
  t.like(body.mails[0], { project_id: null, subject: 'Reset your password', status: 'queued', attempts: 0 });
  t.is((await read('?limit=1')).body.mails.length, 1);
});

test('nobody else reads it', async (t) => {
  const user = await platform().client.signUp();
  for (const token of [user.token, `${opsToken}x`, opsToken.slice(1), 'x']) t.is((await read('', token)).status, 401);
  t.is((await platform().client.call('GET', '/ops/api/mail')).status, 401);
});

test('a number of mails out of range is refused', async (t) => {
  for (const limit of ['0', '201', '-1', 'x', '1.5']) t.is((await read(`?limit=${limit}`)).status, 400, limit);
});

test('the text of a mail is sealed where it is kept', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  await askForReset(platform(), user.email);
  const rows = await db.query<{ body_sealed: Buffer }>('select body_sealed from platform_mail where recipient = $1', [
    user.email,
  ]);
  t.is(rows.length, 1);
  t.false(rows[0]?.body_sealed.includes('password'));
});
