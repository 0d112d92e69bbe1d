import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type SmtpOptions, type TestSmtp, parseMail, startSmtp } from '#test/support/smtp.ts';
import { until } from '#test/support/until.ts';
import { emailRows, mailProject } from './scene.ts';

const platform = usePlatform(test);

const servers: TestSmtp[] = [];
const smtp = async (options?: SmtpOptions): Promise<TestSmtp> => {
  const server = await startSmtp(options);
  servers.push(server);
  return server;
};
test.after.always(() => Promise.all(servers.map((server) => server.close())));

test('a mail arrives with sender, recipient, subject, both bodies and an id, and what it said is not kept', async (t) => {
  const server = await smtp();
  const { project, sendTest } = await mailProject(platform(), { port: server.port });
  const answer = await sendTest('grace@example.com');
  t.is(answer.status, 200, answer.text);
  const [received, ...others] = server.mails;
  t.deepEqual(others, []);
  if (!received) throw new Error('nothing arrived');
  t.deepEqual([received.from, received.to], ['shop@example.com', ['grace@example.com']]);
  const mail = await parseMail(received);
  t.deepEqual(mail.from, { name: 'The Shop', address: 'shop@example.com' });
  t.is(mail.subject, `Confirm your e-mail address for ${project.slug}`);
  t.is(mail.messageId, `<${answer.body.email_id}@example.com>`);
  t.regex(mail.html ?? '', /href="https:\/\/example\.com\/confirm\?token=sample"/);
  t.regex(mail.text ?? '', /Ada Lovelace[^]*https:\/\/example\.com\/confirm\?token=sample/);
  t.notRegex(mail.text ?? '', /One click/, 'the preheader is for lists of mails');
  const [row] = await emailRows(platform(), project.id);
  t.like(row, { id: answer.body.email_id, status: 'sent', attempts: 1, content_sealed: null, error: null });
  t.is(row?.response, answer.body.response);
  t.true(row?.sent_at instanceof Date);
});

test('who asks not to wait gets the job, which ends with the server’s words', async (t) => {
  const server = await smtp();
  const { sendTest, call } = await mailProject(platform(), { port: server.port });
  const answer = await sendTest(undefined, { prefer: 'respond-async' });
  t.is(answer.status, 202);
  const job = await until(async () => {
    const { body } = await call('GET', `/jobs/${answer.body.job_id}`);
    return body.status === 'succeeded' && body;
  });
  t.is(job.type, 'email.send');
  t.regex(job.result.response, /^250/);
});

test('a server that says "later" is asked again after 2 s, and the mail arrives once', async (t) => {
  const server = await smtp({ onMail: (_mail, nth) => (nth === 1 ? { code: 451, text: '4.7.1 Come back' } : 'take') });
  const { project, sendTest, call } = await mailProject(platform(), { port: server.port });
  const answer = await sendTest();
  t.is(answer.status, 200, answer.text);
  t.is(server.mails.length, 2);
  const [row] = await emailRows(platform(), project.id);
  t.like(row, { status: 'sent', attempts: 2, error: null });
  const { body } = await call('GET', '/jobs?type=email.send');
  t.is(body.jobs[0].attempt, 2);
  const [tried] = await platform().db.query<{ waited: number }>(
    `select extract(epoch from j.started_at - a.started_at)::float8 as waited
     from job_attempts a join jobs j on j.id = a.job_id where j.project_id = $1`,
    [project.id],
  );
  t.true((tried?.waited ?? 0) >= 2, `the second try came after ${tried?.waited} s`);
});

test('a recipient who is refused for good bounces: no further try, and the server’s words are kept', async (t) => {
  const server = await smtp({ onRecipient: () => ({ code: 550, text: '5.1.1 No such user' }) });
  const { project, sendTest, call } = await mailProject(platform(), { port: server.port });
  const answer = await sendTest('nobody@example.com');
  t.is(answer.status, 502);
  t.is(answer.body.code, 'mail_rejected');
  t.regex(answer.body.message, /No such user/);
  const [row] = await emailRows(platform(), project.id);
  t.like(row, { status: 'bounced', attempts: 1, content_sealed: null });
  t.regex(row?.response ?? '', /550.*No such user/);
  // The caller hears of the outcome before the job's row has it.
  const job = await until(async () => {
    const { body } = await call('GET', '/jobs?type=email.send');
    return body.jobs[0].status !== 'running' && body.jobs[0];
  });
  t.like(job, { status: 'failed', attempt: 1 });
});

test('a mail that the server refuses for what it says fails for good and is no bounce', async (t) => {
  const server = await smtp({ onMail: () => ({ code: 554, text: '5.7.1 Spam' }) });
  const { project, sendTest } = await mailProject(platform(), { port: server.port });
  t.is((await sendTest()).body.code, 'mail_rejected');
  const [row] = await emailRows(platform(), project.id);
  t.like(row, { status: 'failed', attempts: 1 });
  t.regex(row?.error ?? '', /Spam/);
  t.is(server.mails.length, 1);
});

test('a server that hangs up after its 250 got the mail once, and the next one arrives, too', async (t) => {
  const server = await smtp({ onMail: () => 'take and hang up' });
  const { sendTest } = await mailProject(platform(), { port: server.port });
  t.is((await sendTest('one@example.com')).status, 200);
  t.is((await sendTest('two@example.com')).status, 200);
  t.deepEqual(
    server.mails.map(({ to }) => to[0]),
    ['one@example.com', 'two@example.com'],
  );
});

test('20 at once arrive once each, over at most four connections', async (t) => {
  const server = await smtp();
  const { sendTest } = await mailProject(platform(), { port: server.port });
  const names = Array.from({ length: 20 }, (_, i) => `user${i}@example.com`);
  const answers = await Promise.all(names.map((name) => sendTest(name)));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  t.deepEqual(server.mails.map(({ to }) => String(to[0])).toSorted(), names.toSorted());
  t.true(server.connections().ever <= 4, `${server.connections().ever} connections`);
});

test('a wrong password ends it at once, and neither answer nor job nor log holds it', async (t) => {
  const server = await smtp({ user: { name: 'shop', password: 'right' } });
  const password = 'wrong-Ünd-unusual';
  const { project, sendTest, call } = await mailProject(platform(), { port: server.port, username: 'shop', password });
  const answer = await sendTest();
  t.is(answer.status, 502);
  t.regex(answer.body.message, /refused the user name or the password/);
  const [row] = await emailRows(platform(), project.id);
  t.is(row?.status, 'failed');
  const jobs = await call('GET', '/jobs');
  const secrets = [password, Buffer.from(password).toString('base64')];
  for (const text of [answer.text, jobs.text, JSON.stringify(row), platform().logged()]) {
    for (const secret of secrets) t.false(text.includes(secret));
  }
});

test('with user name and password the mail is sent signed in; new settings are used for the next mail', async (t) => {
  const [first, second] = await Promise.all([
    smtp({ user: { name: 'shop', password: 'right' } }),
    smtp({ user: { name: 'other', password: 'fine' } }),
  ]);
  const scene = await mailProject(platform(), { port: first.port, username: 'shop', password: 'right' });
  t.is((await scene.sendTest()).status, 200);
  const next = {
    host: '127.0.0.1',
    port: second.port,
    username: 'other',
    password: 'fine',
    from_email: 'a@example.org',
  };
  t.is((await scene.call('PUT', '/email/smtp', next)).status, 200);
  t.is((await scene.sendTest()).status, 200);
  t.deepEqual([first.mails.map(({ user }) => user), second.mails.map(({ user }) => user)], [['shop'], ['other']]);
  t.is(second.mails[0]?.from, 'a@example.org');
});

test('with nothing configured, local development keeps the mail for the mailbox page', async (t) => {
  const { project, sendTest } = await mailProject(platform());
  const answer = await sendTest();
  t.is(answer.status, 200, answer.text);
  const [row] = await emailRows(platform(), project.id);
  t.is(row?.status, 'kept');
  t.true(row?.content_sealed instanceof Buffer);
});

test('a job that is cancelled while it waits for its next try takes its mail with it', async (t) => {
  const server = await smtp({ onMail: () => ({ code: 451, text: 'later' }) });
  const { project, sendTest, call } = await mailProject(platform(), { port: server.port });
  const { body } = await sendTest(undefined, { prefer: 'respond-async' });
  await until(() => server.mails.length > 0);
  await until(async () => (await call('GET', `/jobs/${body.job_id}`)).body.status === 'queued');
  t.is((await call('POST', `/jobs/${body.job_id}/cancel`)).status, 200);
  const [row] = await emailRows(platform(), project.id);
  t.is(row?.status, 'failed');
});

test('the same Idempotency-Key sends one mail', async (t) => {
  const server = await smtp();
  const { sendTest } = await mailProject(platform(), { port: server.port });
  const headers = { 'idempotency-key': 'once' };
  const [one, two] = await Promise.all([sendTest(undefined, headers), sendTest(undefined, headers)]);
  t.is(one.body.email_id, two.body.email_id);
  t.is(server.mails.length, 1);
});
