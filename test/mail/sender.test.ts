import test from 'ava';
import type { Queryable } from '#lib/control-db.ts';
import { takeDueMail } from '#domain/mail/due.ts';
import { createPlatformMail } from '#domain/mail/mail.ts';
import { usePlatform } from '#test/support/platform.ts';
import { parseMail } from '#test/support/smtp.ts';
import { until } from '#test/support/until.ts';
import { sendDueMail } from '#workers/mail/sender.ts';
import { openMailScene } from './scene.ts';

const platform = usePlatform(test, { worker: false });

test.serial('a mail is sent once, in plain text and in HTML, and its text is gone then', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('ada@example.com');
  t.is(await sendDueMail(scene.deps), 1);
  t.is(await sendDueMail(scene.deps), 0);
  t.is(scene.smtp.mails.length, 1);
  const mail = await parseMail(scene.smtp.mails[0] ?? { raw: '' });
  t.like(mail.from, { name: 'Plinth here', address: 'no-reply@plinth.test' });
  t.is(mail.to?.[0]?.address, 'ada@example.com');
  t.is(mail.subject, 'Reset your password');
  t.true(mail.text?.includes('http://plinth.test/reset/secret-token'));
  t.true(mail.html?.includes('href="http://plinth.test/reset/secret-token"'));
  t.deepEqual(await scene.row('ada@example.com'), { status: 'sent', attempts: 1, error: null, hasText: false });
  t.false(scene.logged().includes('secret-token'));
});

test.serial('what the server cannot take just now is sent later', async (t) => {
  const scene = await openMailScene(platform(), {
    onMail: (_mail, nth) => (nth === 1 ? { code: 451, text: 'try later' } : 'take'),
  });
  t.teardown(scene.close);
  await scene.write('later@example.com');
  await sendDueMail(scene.deps);
  const row = await scene.row('later@example.com');
  t.like(row, { status: 'queued', attempts: 1, hasText: true });
  t.true(row.error?.includes('try later'));
  t.is(await sendDueMail(scene.deps), 0, 'not before its time');
  await scene.hurry('later@example.com');
  await sendDueMail(scene.deps);
  t.like(await scene.row('later@example.com'), { status: 'sent', attempts: 2, error: null });
});

test.serial('a server that is away is tried again', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('broken@example.com');
  await scene.smtp.close();
  await sendDueMail(scene.deps);
  t.like(await scene.row('broken@example.com'), { status: 'queued', attempts: 1 });
  await scene.hurry('broken@example.com');
  await sendDueMail(scene.deps);
  t.like(await scene.row('broken@example.com'), { status: 'queued', attempts: 2 });
  await scene.platform.db.query(`delete from platform_mail where recipient = 'broken@example.com'`);
});

test.serial('a server that had the whole mail and did not answer does not get it again', async (t) => {
  const scene = await openMailScene(platform(), { onMail: (_mail, nth) => (nth === 1 ? 'hang up' : 'take') });
  t.teardown(scene.close);
  await scene.write('unknown@example.com');
  await sendDueMail(scene.deps);
  t.like(await scene.row('unknown@example.com'), { status: 'unknown', attempts: 1, hasText: true });
  await scene.hurry('unknown@example.com');
  t.is(await sendDueMail(scene.deps), 0);
  t.is(scene.smtp.mails.length, 1);
});

test.serial('a slow answer holds up no other mail, and is heard when it comes', async (t) => {
  const { promise: answer, resolve: give } = Promise.withResolvers<'take'>();
  const scene = await openMailScene(platform(), {
    onMail: ({ to }) => (to[0] === 'slow@example.com' ? answer : 'take'),
  });
  t.teardown(scene.close);
  await scene.write('slow@example.com');
  await sendDueMail(scene.deps);
  t.like(await scene.row('slow@example.com'), { status: 'queued', attempts: 1 });
  await scene.write('next@example.com');
  t.is(await sendDueMail(scene.deps), 1, 'only the other one');
  t.like(await scene.row('next@example.com'), { status: 'sent' });
  give('take');
  await until(async () => (await scene.row('slow@example.com')).status === 'sent');
  t.is(scene.smtp.mails.length, 2);
});

test.serial('a mail whose answer nobody waits for any more is unknown', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('orphan@example.com');
  await scene.platform.db.query(
    `update platform_mail set handed_over_at = now(), next_at = now() where recipient = 'orphan@example.com'`,
  );
  t.is(await sendDueMail(scene.deps), 0);
  t.like(await scene.row('orphan@example.com'), { status: 'unknown', hasText: true });
  t.is(scene.smtp.mails.length, 0);
});

test.serial('what the server refuses for good is given up with its words', async (t) => {
  const scene = await openMailScene(platform(), { onRecipient: () => ({ code: 550, text: '5.1.1 no such user' }) });
  t.teardown(scene.close);
  await scene.write('nobody@example.com');
  await sendDueMail(scene.deps);
  const row = await scene.row('nobody@example.com');
  t.like(row, { status: 'failed', attempts: 1 });
  t.true(row.error?.includes('no such user'));
});

test.serial('a mail is given up after ten tries', async (t) => {
  const scene = await openMailScene(platform(), { onMail: () => ({ code: 451, text: 'busy' }) });
  t.teardown(scene.close);
  await scene.write('busy@example.com');
  for (let tries = 1; tries <= 10; tries += 1) {
    t.like(await scene.row('busy@example.com'), { status: 'queued', attempts: tries - 1 });
    await scene.hurry('busy@example.com');
    await sendDueMail(scene.deps);
  }
  t.like(await scene.row('busy@example.com'), { status: 'failed', attempts: 10 });
});

/** Fails the first time that a mail is noted as sent. */
const forgetful = (db: Queryable): Queryable => {
  let failed = false;
  return {
    ...db,
    query: (sql, ...rest) => {
      if (failed || !sql.includes(`status = 'sent'`)) return db.query(sql, ...rest);
      failed = true;
      return Promise.reject(new Error('the connection broke'));
    },
  };
};

test.serial('what the server took is not sent again because that could not be noted at once', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('noted@example.com');
  const { db } = scene.platform;
  await sendDueMail({ ...scene.deps, db: forgetful({ query: (...args) => db.query(...args) }) });
  t.like(await scene.row('noted@example.com'), { status: 'sent', attempts: 1 });
  await scene.hurry('noted@example.com');
  t.is(await sendDueMail(scene.deps), 0);
  t.is(scene.smtp.mails.length, 1);
});

test.serial('several senders send each mail once', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  const addresses = Array.from({ length: 20 }, (_, i) => `one-of-many-${i}@example.com`);
  await Promise.all(addresses.map(scene.write));
  const drain = async (): Promise<void> => {
    while ((await sendDueMail(scene.deps)) > 0);
  };
  await Promise.all([drain(), drain(), drain()]);
  t.deepEqual(scene.smtp.mails.map(({ to }) => String(to[0])).toSorted(), addresses.toSorted());
});

test.serial('what a sender took that died is sent by another one when its lease is over', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('leased@example.com');
  t.is((await takeDueMail(scene.platform.db, 10)).length, 1);
  t.is(await sendDueMail(scene.deps), 0);
  await scene.hurry('leased@example.com');
  t.is(await sendDueMail(scene.deps), 1);
  t.like(await scene.row('leased@example.com'), { status: 'sent', attempts: 2 });
});

test.serial('without a server mails are kept', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('kept@example.com');
  t.is(await sendDueMail({ ...scene.deps, server: null }), 1);
  t.like(await scene.row('kept@example.com'), { status: 'kept', attempts: 0, hasText: true });
});

test.serial('what a reader waits for is sent before notices that were written earlier', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  const { db, sealer } = scene.platform;
  const notices = Array.from({ length: 8 }, (_, i) => ({
    kind: 'notice' as const,
    to: `admin-${i}@example.com`,
    projectId: crypto.randomUUID(),
    subject: 'Something',
    paragraphs: ['It happened.'],
  }));
  await createPlatformMail(sealer, 'http://plinth.test').send(db, ...notices);
  await scene.write('waiting@example.com');
  await sendDueMail(scene.deps);
  t.is((await scene.row('waiting@example.com')).status, 'sent');
  while ((await sendDueMail(scene.deps)) > 0);
  t.is(scene.smtp.mails.length, 9);
});
