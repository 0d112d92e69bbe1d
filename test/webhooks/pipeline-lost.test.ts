import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { addProject, addWebhook, deliveriesOf, deliveriesWhen, emit, hasStatus } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false, settings: { DRAIN_MS: '1500', WORKER_QUEUES: 'webhooks' } });

const startWorker = async () => {
  const worker = startProcess('workers/server.ts', environmentOf(platform().config));
  await worker.ready;
  return worker;
};

test.serial('a try whose worker is killed is made once more, under the same webhook-id', async (t) => {
  t.timeout(longTestMs);
  const receiver = await receiverFor(t);
  receiver.answer(() => undefined);
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  const first = await startWorker();
  const [eventId] = await emit(platform(), project.id, 'auth.login');
  await receiver.when(1);
  first.child.kill('SIGKILL');
  await first.end;
  receiver.answer((response) => response.end());
  const second = await startWorker();
  t.teardown(() => second.child.kill('SIGKILL'));
  const [row] = await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('success') });
  t.is(row?.attempt, 1);
  t.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId, eventId],
  );
  second.child.kill('SIGTERM');
  await second.end;
});

test.serial('a worker that is stopped hands a try back that does not end; nothing is recorded of it', async (t) => {
  t.timeout(longTestMs);
  const receiver = await receiverFor(t);
  receiver.answer(() => undefined);
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  const worker = await startWorker();
  await emit(platform(), project.id, 'auth.login');
  await receiver.when(1);
  worker.child.kill('SIGTERM');
  t.is(await worker.end, 0);
  const [row] = await deliveriesOf(platform(), webhook.id);
  t.like(row, { status: 'pending', attempt: 0 });
  const [job] = await platform().db.query('select status, attempt from jobs where id = $1', [row?.job_id]);
  t.deepEqual(job, { status: 'queued', attempt: 0 });
  receiver.answer((response) => response.end());
  const stop = await platform().startWorker();
  await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('success') });
  await stop();
});

test.serial('what nobody passed on while no worker was there is passed on by the next one', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  await emit(
    platform(),
    project.id,
    'auth.login',
    Array.from({ length: 7 }, () => '{}'),
  );
  const stop = await platform().startWorker();
  await deliveriesWhen(platform(), webhook.id, { count: 7, fits: hasStatus('success') });
  await stop();
  await until(() => receiver.open() === 0);
  t.is(receiver.received.length, 7);
});
