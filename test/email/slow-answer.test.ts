import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type SmtpOptions, type TestSmtp, startSmtp } from '#test/support/smtp.ts';
import { until } from '#test/support/until.ts';
import { emailRows, mailProject } from './scene.ts';

const platform = usePlatform(test);

const servers: TestSmtp[] = [];
const smtp = async (options: SmtpOptions): Promise<TestSmtp> => {
  const server = await startSmtp(options);
  servers.push(server);
  return server;
};
test.after.always(() => Promise.all(servers.map((server) => server.close())));

const recipients = ({ mails }: TestSmtp): string[] => mails.map(({ to }) => String(to[0]));

test('a mail whose answer is lost behind the final dot is unknown and not sent again, unless somebody asks for it', async (t) => {
  const server = await smtp({ onMail: (_mail, nth) => (nth === 1 ? 'hang up' : 'take') });
  const { project, sendTest, call } = await mailProject(platform(), { port: server.port });
  const answer = await sendTest();
  t.deepEqual([answer.status, answer.body.code], [502, 'mail_unknown']);
  t.regex(answer.body.message, /may have been delivered/);
  const [row] = await emailRows(platform(), project.id);
  t.like(row, { status: 'unknown', attempts: 1, sent_at: null });
  // The answer may come before the end is recorded.
  const job = await until(async () => {
    const [listed] = (await call('GET', '/jobs?type=email.send')).body.jobs;
    return listed.status !== 'running' && listed;
  });
  t.like(job, { status: 'failed', attempt: 1, error: { code: 'mail_unknown' } });
  t.is(server.mails.length, 1);
  t.is((await call('POST', `/jobs/${job.id}/retry`)).status, 202);
  await until(async () => (await call('GET', `/jobs/${job.id}`)).body.status === 'succeeded');
  t.is(server.mails.length, 2);
  t.like((await emailRows(platform(), project.id))[0], { status: 'sent', error: null });
});

test('slow answers hold none of the two slots of a Free project, and are recorded when they come', async (t) => {
  const { promise: answer, resolve: give } = Promise.withResolvers<'take'>();
  const server = await smtp({ onMail: ({ to }) => (to[0]?.startsWith('slow') ? answer : 'take') });
  const scene = await mailProject(platform(), { port: server.port }, 'free');
  const slow = ['slow1@example.com', 'slow2@example.com', 'slow3@example.com'];
  const jobs = await Promise.all(slow.map((name) => scene.sendTest(name, { prefer: 'respond-async' })));
  const next = await scene.sendTest('next@example.com', { prefer: 'wait=60' });
  t.is(next.status, 200, next.text);
  await until(() => server.mails.length === slow.length + 1);
  t.deepEqual(recipients(server).toSorted(), ['next@example.com', ...slow]);
  give('take');
  for (const { body } of jobs) {
    const job = await until(async () => {
      const { body: now } = await scene.call('GET', `/jobs/${body.job_id}`);
      return now.status === 'succeeded' && now;
    });
    t.is(job.attempt, 1, 'waiting for the answer is no attempt');
    t.regex(job.result.response, /^250/);
  }
  t.is(server.mails.length, 4, 'each arrived once');
  t.deepEqual(
    (await emailRows(platform(), scene.project.id)).map(({ status, attempts }) => `${status} ${attempts}`),
    ['sent 1', 'sent 1', 'sent 1', 'sent 1'],
  );
});

test('a refusal that comes late counts as an attempt, and the next one follows', async (t) => {
  const { promise: answer, resolve: give } = Promise.withResolvers<{ code: number; text: string }>();
  const server = await smtp({ onMail: (_mail, nth) => (nth === 1 ? answer : 'take') });
  const { project, sendTest, call } = await mailProject(platform(), { port: server.port }, 'free');
  const { body } = await sendTest(undefined, { prefer: 'respond-async' });
  await until(async () => {
    const [row] = await platform().db.query('select from emails where project_id = $1 and handed_over_at is not null', [
      project.id,
    ]);
    return row;
  });
  give({ code: 451, text: '4.7.1 Come back' });
  const job = await until(async () => {
    const { body: now } = await call('GET', `/jobs/${body.job_id}`);
    return now.status === 'succeeded' && now;
  });
  t.is(job.attempt, 2);
  t.is(server.mails.length, 2);
  t.like((await emailRows(platform(), project.id))[0], { status: 'sent', attempts: 2 });
});
