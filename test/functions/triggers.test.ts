import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import { cronClient } from '#test/cron/cron-client.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

const triggersOf = ({ ask, fn }: ProjectScene, count: number) =>
  until(async () => {
    const { body } = await ask('GET', `/functions/${fn.id}/invocations`);
    return body.invocations.length === count && body.invocations.map(({ trigger }: { trigger: string }) => trigger);
  });

test('a run is recorded with what triggered it: dashboard, key, alias, schedule, rerun', async (t) => {
  const one = await scene('exports.handler = (x) => x');
  const { client } = platform();
  const { body } = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } });
  await client.call('POST', `/api/functions/${one.fn.slug}`, { key: one.project.key, body: 2 });
  await client.call('POST', `/p/${one.project.ref}/functions/v1/${one.fn.slug}`, { key: one.project.key, body: 3 });
  const cron = cronClient(platform(), one.user, one.project);
  const fired = await cron.run(await cron.create({ type: 'function', function_id: one.fn.id }, { payload: 4 }));
  t.is(fired.run.status, 'succeeded');
  await one.ask('POST', `/functions/${one.fn.id}/invocations/${body.invocation_id}/rerun`);
  t.deepEqual(await triggersOf(one, 5), ['dashboard', 'cron', 'api', 'api', 'dashboard']);
});
