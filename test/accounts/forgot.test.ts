import test from 'ava';
import { createResetSender, requestReset } from '#domain/accounts/resets.ts';
import { createPlatformMail } from '#domain/mail/mail.ts';
import type { Queryable } from '#lib/control-db.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { untilBlocked } from '#test/support/blocked.ts';
import { uniqueName } from '#test/support/client.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { untilResetsAreSent } from '#test/support/reset.ts';

const platform = usePlatform(test, { worker: false });

const mailsTo = (email: string) => platform().db.query('select from platform_mail where recipient = $1', [email]);

/** The statements that run before the answer. */
const statementsFor = async (email: string): Promise<string[]> => {
  const statements: string[] = [];
  const db: Queryable = {
    query: (sql) => {
      statements.push(sql);
      return Promise.resolve([]);
    },
  };
  await requestReset(db, email);
  return statements;
};

test.serial('the answer waits for the same statement, whether the address is known or not', async (t) => {
  const user = await platform().client.signUp();
  const known = await statementsFor(user.email);
  t.is(known.length, 1);
  t.deepEqual(await statementsFor(`${uniqueName('nobody')}@example.com`), known);
});

test.serial('whether the address is known is found out behind the answer', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  // The request's server has to wait for this; the answer does not.
  const answer = await db.transaction(async (tx) => {
    await tx.query('select from users where id = $1 for update', [user.id]);
    const answered = await client.call('POST', '/auth/forgot', { body: { email: user.email } });
    await untilBlocked(db);
    return answered;
  });
  t.is(answer.status, 202);
  await untilResetsAreSent(platform());
  t.is((await mailsTo(user.email)).length, 1);
});

test.serial('a request that a process left behind is served by the next', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const keyRing = openKeyRing(`1:${Buffer.alloc(32).toString('base64')}`);
  const mail = createPlatformMail(keyRing.sealerFor('x', keyRing.newDataKey('x')), 'https://plinth.example');
  await requestReset(db, user.email);
  const sender = createResetSender({ db, mail, log: memoryLog().log, everyMs: 10 });
  await untilResetsAreSent(platform());
  await sender.stop();
  t.is((await mailsTo(user.email)).length, 1);
});

test.serial('a request that fails does not get lost', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const { log, text } = memoryLog();
  let failures = 0;
  const mail = {
    link: (path: string) => path,
    send: () => {
      failures += 1;
      return Promise.reject(new Error('no mail today'));
    },
  };
  const sender = createResetSender({ db, mail, log, everyMs: 3_600_000 });
  await requestReset(db, user.email);
  sender.wake();
  await sender.stop();
  t.is(failures, 1);
  t.regex(text(), /no mail today/);
  t.is((await db.query('select from reset_requests where email = $1', [user.email])).length, 1);
  t.is((await mailsTo(user.email)).length, 0);
  t.is((await db.query('select from password_resets where user_id = $1', [user.id])).length, 0);
});
