import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { parseMail, startSmtp } from '#test/support/smtp.ts';
import { until } from '#test/support/until.ts';
import { emailRows, mailProject } from './scene.ts';

// Projects are made by the worker of this process, mails are sent by others, which can be killed.
const platform = usePlatform(test, { settings: { WORKER_QUEUES: 'system' } });

test('a worker that dies while a mail is on its way: the next one sends it, with the same id, and a sent one stays sent', async (t) => {
  const { promise: held, resolve: hold } = Promise.withResolvers<void>();
  const server = await startSmtp({
    onMail: ({ to }, nth) => {
      if (to[0] !== 'held@example.com' || nth > 2) return 'take';
      hold();
      return new Promise(() => undefined);
    },
  });
  t.teardown(server.close);
  const { project, sendTest } = await mailProject(platform(), { port: server.port });
  const env = { ...environmentOf(platform().config), WORKER_QUEUES: 'email' };
  const first = startProcess('workers/server.ts', env);
  t.teardown(() => first.child.kill('SIGKILL'));
  await first.ready;
  t.is((await sendTest('first@example.com')).status, 200);
  await sendTest('held@example.com', { prefer: 'respond-async' });
  await held;
  first.child.kill('SIGKILL');
  const second = startProcess('workers/server.ts', env);
  t.teardown(() => second.child.kill('SIGKILL'));
  await second.ready;
  const rows = await until(async () => {
    const now = await emailRows(platform(), project.id);
    return now.every(({ status }) => status === 'sent') && now;
  });
  t.is(rows.length, 2);
  t.deepEqual(
    server.mails.map(({ to }) => to[0]),
    ['first@example.com', 'held@example.com', 'held@example.com'],
  );
  const [, one, two] = await Promise.all(server.mails.map(async (mail) => (await parseMail(mail)).messageId));
  t.is(one, two);
  second.child.kill('SIGTERM');
  await second.end;
});
