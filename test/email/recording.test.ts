import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { MailFailure } from '#domain/email/failure.ts';
import { aboutContent, insertEmail } from '#domain/email/email.ts';
import type { Transport } from '#domain/email/transport.ts';
import type { Queryable } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { insertProject } from '#test/support/engine.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { JobParked } from '#workers/processor.ts';
import { type EmailSendDeps, emailSendProcessor } from '#workers/processors/email-send.ts';
import { emailRows } from './scene.ts';

// Without a worker: the tests run the mails.
const platform = usePlatform(test, { worker: false });

const rings = () => openKeyRing(platform().config.PLINTH_SECRET_KEYS);

/** A project that writes to these. */
const projectWith = async (...recipients: readonly string[]) => {
  const { db } = platform();
  const projectId = await insertProject(db);
  const dataKey = rings().newDataKey(projectId);
  const sealer = rings().sealerFor(projectId, dataKey);
  const ids = recipients.map(() => newId());
  await db.transaction(async (tx) => {
    await tx.query('update projects set data_key = $2 where id = $1', [projectId, dataKey]);
    for (const [nth, recipient] of recipients.entries()) {
      const id = ids[nth] ?? '';
      const content = sealer.seal(aboutContent(id), JSON.stringify({ subject: 's', html: '<p>b</p>' }));
      await insertEmail(tx, { id, projectId, template: 'signup', recipient, content, jobId: newId() });
    }
  }, systemActor);
  return { projectId, ids };
};

/** Runs mails as one worker does. */
const workerWith = (
  send: Transport['send'],
  db: Queryable = platform().db,
  limits: Pick<EmailSendDeps, 'maxParked' | 'unparkedMs'> = {},
) => {
  const from = { name: 'Shop', address: 'shop@example.com' };
  const sender = { transport: { send }, dkim: null, domain: 'example.com', from };
  const processor = emailSendProcessor({
    db,
    projects: { sealer: ({ id, data_key }) => rings().sealerFor(id, data_key) },
    transports: { senderOf: () => Promise.resolve(sender) },
    local: false,
    log: memoryLog().log,
    ...limits,
  });
  return (projectId: string, id: string) =>
    processor.run(
      { email_id: id },
      {
        jobId: newId(),
        projectId,
        requestId: 'r',
        attempt: 1,
        signal: new AbortController().signal,
        log: () => undefined,
        progress: () => undefined,
      },
    );
};

/** A database whose records of tries go through this. */
const dbWith = (onRecord: (values: readonly unknown[]) => readonly unknown[]): Queryable => ({
  query: async (sql, values, name) =>
    platform().db.query(sql, name === 'record-email-tries' ? [...onRecord(values ?? [])] : values, name),
});

const fault = (code: string): Error => Object.assign(new Error(`refused with ${code}`), { code });

const statusesOf = async (projectId: string) =>
  (await emailRows(platform(), projectId)).map(({ status, response }) => `${status}: ${response}`).toSorted();

/** Values that Postgres refuses. */
const withNul = (value: unknown): unknown => (value === '250 bad@b.example' ? '250 bad\0' : value);

test('a mail that Postgres refuses to record keeps its status and holds up no other', async (t) => {
  const { projectId, ids } = await projectWith('a@b.example', 'bad@b.example', 'c@b.example');
  const db = dbWith((values) => values.map((list) => (Array.isArray(list) ? list.map(withNul) : list)));
  let sent = 0;
  const run = workerWith(({ to }) => {
    sent += 1;
    return Promise.resolve(`250 ${to}`);
  }, db);
  const outcomes = await Promise.all(ids.map((id) => run(projectId, id)));
  t.deepEqual(
    outcomes.map(({ status }) => status),
    ['succeeded', 'succeeded', 'succeeded'],
  );
  t.deepEqual(await statusesOf(projectId), [
    'sent: 250 a@b.example',
    'sent: 250 c@b.example',
    'sent: What was said about it could not be recorded.',
  ]);
  await Promise.all(ids.map((id) => run(projectId, id)));
  t.is(sent, 3, 'and none is sent again');
});

test('what a server said is recorded without what Postgres cannot store', async (t) => {
  const { projectId, ids } = await projectWith('a@b.example');
  let records = 0;
  const db = dbWith((values) => {
    records += 1;
    return values;
  });
  const run = workerWith(() => Promise.resolve('250 a\0b\ud800\r\n\u202ec'), db);
  t.is((await run(projectId, ids[0] ?? '')).status, 'succeeded');
  t.deepEqual(await statusesOf(projectId), ['sent: 250 a b c']);
  t.is(records, 1, 'at once');
});

test('a batch that takes Postgres too long is recorded in parts', async (t) => {
  const { projectId, ids } = await projectWith(...'abcde'.split('').map((name) => `${name}@b.example`));
  const sizes: number[] = [];
  const db = dbWith((values) => {
    const size = (values[0] as readonly unknown[]).length;
    sizes.push(size);
    if (size > 1) throw fault('57014');
    return values;
  });
  // All at once, so that they share a batch.
  const arrived: (() => void)[] = [];
  const run = workerWith(async () => {
    await new Promise<void>((go) => {
      if (arrived.push(go) === ids.length) for (const next of arrived) next();
    });
    return '250';
  }, db);
  await Promise.all(ids.map((id) => run(projectId, id)));
  t.deepEqual(
    await statusesOf(projectId),
    ids.map(() => 'sent: 250'),
  );
  t.true(sizes.some((size) => size > 1));
});

test('another run of a job whose mail was taken, but could not be recorded yet, does not send it again', async (t) => {
  const { projectId, ids } = await projectWith('a@b.example');
  const [id = ''] = ids;
  let [sent, refused] = [0, 0];
  const reached = Promise.withResolvers<void>();
  const db = dbWith((values) => {
    reached.resolve();
    if (refused++ < 4) throw fault('ECONNREFUSED');
    return values;
  });
  const run = workerWith(() => Promise.resolve(`250 ${(sent += 1)}`), db);
  const first = run(projectId, id);
  await reached.promise;
  const outcomes = [await run(projectId, id), await first];
  t.deepEqual(outcomes[0], outcomes[1]);
  t.is(sent, 1);
  t.deepEqual(await statusesOf(projectId), ['sent: 250 1']);
});

test('a 250 that comes after its job ended is recorded, and a retry of the job sends nothing', async (t) => {
  const { projectId, ids } = await projectWith('a@b.example');
  let sent = 0;
  const run = workerWith(async () => {
    sent += 1;
    await platform().db.query(`update emails set status = 'failed', error = 'too late' where id = $1`, [ids[0]]);
    return '250';
  });
  const first = await run(projectId, ids[0] ?? '');
  t.deepEqual(await run(projectId, ids[0] ?? ''), first);
  t.is(sent, 1);
});

test('a mail that was handed over to a server by a worker that died is unknown, and not sent', async (t) => {
  const { projectId, ids } = await projectWith('a@b.example');
  await platform().db.query('update emails set handed_over_at = now() where id = $1', [ids[0]]);
  let sent = 0;
  const run = workerWith(() => Promise.resolve(`250 ${(sent += 1)}`));
  const outcome = await run(projectId, ids[0] ?? '');
  t.like(outcome, { status: 'failed', error: { code: 'mail_unknown' } });
  t.is(sent, 0);
  t.like((await emailRows(platform(), projectId))[0], { status: 'unknown' });
  t.like(await run(projectId, ids[0] ?? ''), { status: 'failed', error: { code: 'mail_unknown' } });
});

test('so many mails of a project wait without a slot; the next one keeps its own', async (t) => {
  const { projectId, ids } = await projectWith('a@b.example', 'b@b.example');
  const answer = Promise.withResolvers<string>();
  const bothSlow = Promise.withResolvers<void>();
  let slow = 0;
  const run = workerWith(
    (_mail, _signal, onSlow) => {
      onSlow?.();
      if (++slow === 2) bothSlow.resolve();
      return answer.promise;
    },
    platform().db,
    { maxParked: { ofProject: 1, ofAll: 10 } },
  );
  await t.throwsAsync(run(projectId, ids[0] ?? ''), { instanceOf: JobParked });
  const second = run(projectId, ids[1] ?? '');
  await bothSlow.promise;
  answer.resolve('250 at last');
  t.like(await second, { status: 'succeeded' });
  await until(async () => (await statusesOf(projectId)).every((status) => status === 'sent: 250 at last'));
});

test('a mail that keeps its slot is unknown when the answer does not come for long, and frees it', async (t) => {
  const { projectId, ids } = await projectWith('a@b.example');
  const lost = new MailFailure('unknown', 'no answer');
  const run = workerWith(
    (_mail, signal, onSlow) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(lost));
        onSlow?.();
      }),
    platform().db,
    { maxParked: { ofProject: 0, ofAll: 10 }, unparkedMs: 1 },
  );
  t.like(await run(projectId, ids[0] ?? ''), { status: 'failed', error: { code: 'mail_unknown' } });
  t.like((await emailRows(platform(), projectId))[0], { status: 'unknown', error: 'no answer' });
});
