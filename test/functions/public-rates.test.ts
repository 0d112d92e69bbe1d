import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';

const settings = {
  PLINTH_RATE_LIMITS: 'on',
  PLINTH_RATE_LIMIT_PUBLIC_ADDRESS: '3',
  PLINTH_RATE_LIMIT_PUBLIC_FREE: '5',
  PLINTH_TRUST_PROXY: 'on',
};
const { scene, platform } = useJobsApi(test, { settings });

test('calls without credentials are limited by address and by project, those with a key are not', async (t) => {
  const one = await scene('exports.handler = () => 1');
  await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { access: 'public' } });
  const call = (address: string, key?: string) =>
    platform().client.call('GET', `/p/${one.project.ref}/functions/v1/${one.fn.slug}`, {
      key,
      headers: { 'x-forwarded-for': address },
    });
  const statuses = async (address: string, times: number): Promise<number[]> => {
    const answers = [];
    for (let n = 0; n < times; n += 1) answers.push((await call(address)).status);
    return answers;
  };
  t.deepEqual(await statuses('192.0.2.1', 4), [200, 200, 200, 429]);
  t.deepEqual(await statuses('192.0.2.2', 3), [200, 200, 429]);
  const refused = await call('192.0.2.3');
  t.is(refused.body.code, 'rate_limited');
  t.truthy(refused.headers.get('retry-after'));
  t.is((await call('192.0.2.1', one.project.key)).status, 200);
});
