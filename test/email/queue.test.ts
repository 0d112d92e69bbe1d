import test from 'ava';
import { type EmailOrder, queueEmail } from '#domain/email/email.ts';
import { MailFailure } from '#domain/email/failure.ts';
import type { Sender } from '#domain/email/transports.ts';
import type { Mail } from '#domain/email/transport.ts';
import type { JobRequest } from '#domain/jobs/jobs.ts';
import { systemActor } from '#domain/audit/actor.ts';
import type { Queryable } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { insertProject } from '#test/support/engine.ts';
import { memoryLog, opsToken, usePlatform } from '#test/support/platform.ts';
import type { JobContext } from '#workers/processor.ts';
import { emailSendProcessor } from '#workers/processors/email-send.ts';
import { emailRows } from './scene.ts';

// Without a worker: what the tests queue stays for them to run.
const platform = usePlatform(test, { worker: false });

const projects = {
  sealer: ({ id, data_key }: { id: string; data_key: Buffer }) =>
    openKeyRing(platform().config.PLINTH_SECRET_KEYS).sealerFor(id, data_key),
};

const newProject = async (): Promise<EmailOrder['project']> => {
  const { db } = platform();
  const id = await insertProject(db);
  const data_key = openKeyRing(platform().config.PLINTH_SECRET_KEYS).newDataKey(id);
  await db.transaction(
    (tx) => tx.query(`update projects set name = 'The Shop', data_key = $2 where id = $1`, [id, data_key]),
    systemActor,
  );
  return { id, name: 'The Shop', data_key };
};

const url = 'https://shop.example/confirm?t=abc&u=1';
const variables = { user_name: 'Ada', user_email: 'ada@example.com', confirmation_url: url, expires_in: '1 day' };

const order = (project: EmailOrder['project'], fields: Partial<EmailOrder> = {}): EmailOrder => ({
  project,
  template: 'signup',
  to: 'ada@example.com',
  variables,
  requestId: 'r',
  ...fields,
});

const deps = () => {
  const { db } = platform();
  const requests: JobRequest[] = [];
  const run = async (request: JobRequest) => {
    requests.push(request);
    const id = newId();
    await db.transaction(async (tx) => request.alongside?.(tx, id));
    return { id, outcome: null };
  };
  return { db, projects, local: true, jobs: { run }, requests };
};

const context = (projectId: string): JobContext => ({
  jobId: newId(),
  projectId,
  requestId: 'r',
  attempt: 1,
  signal: new AbortController().signal,
  log: () => undefined,
  progress: () => undefined,
});

/** Runs the job of the project's only mail with that sender. */
const runWith = async (
  project: EmailOrder['project'],
  send: (mail: Mail) => Promise<string>,
  db: Queryable = platform().db,
) => {
  const [row] = await emailRows(platform(), project.id);
  const sender: Sender = {
    transport: { send },
    dkim: null,
    domain: 'example.com',
    from: { name: 'Shop', address: 'shop@example.com' },
  };
  const transports = { senderOf: () => Promise.resolve(sender) };
  const processor = emailSendProcessor({ db, projects, transports, local: false, log: memoryLog().log });
  return processor.run({ email_id: row?.id }, context(project.id));
};

test('a mail is filled in when it is queued, and what it says is readable to no one who sees the row or the job', async (t) => {
  const project = await newProject();
  const { requests, ...rest } = deps();
  const queued = await queueEmail(rest, order(project, { headers: { 'List-Unsubscribe': '<https://a.example/u>' } }));
  t.truthy(queued?.jobId);
  const [row] = await emailRows(platform(), project.id);
  t.deepEqual(requests[0]?.data, { email_id: row?.id });
  t.false(JSON.stringify([row, row?.content_sealed?.toString('latin1'), requests]).includes('t=abc'));
  const sent: Mail[] = [];
  const outcome = await runWith(project, (mail) => Promise.resolve(`250 ${sent.push(mail)}`));
  t.is(outcome.status, 'succeeded');
  const [mail] = sent;
  t.is(mail?.subject, 'Confirm your e-mail address for The Shop');
  t.true(mail?.html.includes('t=abc&amp;u=1'));
  t.true(mail?.text.includes(url));
  t.deepEqual(mail?.headers, { 'List-Unsubscribe': '<https://a.example/u>' });
  t.is(mail?.messageId, `${row?.id}@example.com`);
});

test('a type of mail that the project has turned off is not sent', async (t) => {
  const project = await newProject();
  await platform().db.transaction(
    (tx) =>
      tx.query(
        `insert into email_templates (id, project_id, type, subject, html_body, enabled) values ($1, $2, 'signup', 's', 'b', false)`,
        [newId(), project.id],
      ),
    systemActor,
  );
  t.is(await queueEmail(deps(), order(project)), null);
  t.deepEqual(await emailRows(platform(), project.id), []);
});

const bad: Record<string, Partial<EmailOrder>> = {
  'a recipient with a line end': { to: 'a@example.com\r\nBcc: b@example.com' },
  'two recipients': { to: 'a@example.com, b@example.com' },
  'a link that is a script': { variables: { ...variables, confirmation_url: 'javascript:alert(1)' } },
  'a link that is data': { variables: { ...variables, confirmation_url: 'data:text/html,x' } },
  'a header with a line end': { headers: { 'List-Unsubscribe': '<https://a.example/>\r\nBcc: b@example.com' } },
  'a header whose name has a line end': { headers: { 'X-A\r\nBcc': 'b@example.com' } },
};

test('what must not get into a mail is refused before anything is queued', async (t) => {
  const project = await newProject();
  for (const [what, fields] of Object.entries(bad)) {
    await t.throwsAsync(queueEmail(deps(), order(project, fields)), { message: 'The mail is not valid.' }, what);
  }
  t.deepEqual(await emailRows(platform(), project.id), []);
});

test('without a server, a project of an installation cannot queue mail', async (t) => {
  const project = await newProject();
  const error = await t.throwsAsync(queueEmail({ ...deps(), local: false }, order(project)));
  t.is(Reflect.get(error, 'code'), 'smtp_not_configured');
});

test('a mail that was taken is not sent again, by whatever run of its job', async (t) => {
  const project = await newProject();
  await queueEmail(deps(), order(project));
  let sent = 0;
  const send = () => Promise.resolve(`250 taken as ${(sent += 1)}`);
  const [first, second] = [await runWith(project, send), await runWith(project, send)];
  t.is(sent, 1);
  t.deepEqual(second, first);
});

test('a 250 is recorded however long the database is away, and the mail is not sent again meanwhile', async (t) => {
  const project = await newProject();
  await queueEmail(deps(), order(project));
  let [sent, refused] = [0, 0];
  const db: Queryable = {
    query: (sql, values, name) => {
      if (name !== 'record-email-tries' || refused === 3) return platform().db.query(sql, values, name);
      refused += 1;
      return Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));
    },
  };
  const outcome = await runWith(project, () => Promise.resolve(`250 ${(sent += 1)}`), db);
  t.is(outcome.status, 'succeeded');
  t.deepEqual([sent, refused], [1, 3]);
  const [row] = await emailRows(platform(), project.id);
  t.like(row, { status: 'sent', response: '250 1', attempts: 1 });
});

const fails = (fault: MailFailure['fault']) => () => Promise.reject(new MailFailure(fault, `it is ${fault}`));

test('what another try may cure is thrown to the engine; the rest ends the job', async (t) => {
  const project = await newProject();
  await queueEmail(deps(), order(project));
  const error = await t.throwsAsync(runWith(project, fails('again')), { message: 'it is again' });
  t.is(Reflect.get(error, 'code'), 'mail_failed');
  t.like((await emailRows(platform(), project.id))[0], { status: 'queued', attempts: 1, error: 'it is again' });
  const outcome = await runWith(project, fails('bounced'));
  t.like(outcome, { status: 'failed', error: { code: 'mail_rejected', message: 'it is bounced' } });
  t.like((await emailRows(platform(), project.id))[0], { status: 'bounced', attempts: 2 });
});

test('the mailbox page shows what was kept, the newest first', async (t) => {
  const project = await newProject();
  for (const to of ['one@example.com', 'two@example.com']) await queueEmail(deps(), order(project, { to }));
  await platform().db.query(`update emails set status = 'kept' where project_id = $1`, [project.id]);
  const { body } = await platform().client.call('GET', '/ops/api/mail?status=kept&limit=200', { token: opsToken });
  const kept = (body.mails as { project_id: string; recipient: string; subject: string; body: string }[]).filter(
    ({ project_id: id }) => id === project.id,
  );
  t.deepEqual(
    kept.map(({ recipient }) => recipient),
    ['two@example.com', 'one@example.com'],
  );
  t.is(kept[0]?.subject, 'Confirm your e-mail address for The Shop');
  t.true(kept[0]?.body.includes(url));
});

test('a project that is deleted leaves no mail', async (t) => {
  const project = await newProject();
  await queueEmail(deps(), order(project));
  t.is((await emailRows(platform(), project.id))[0]?.status, 'queued');
  await platform().db.transaction((tx) => tx.query('delete from projects where id = $1', [project.id]), systemActor);
  t.deepEqual(await emailRows(platform(), project.id), []);
});
