import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test, { settings: { PLINTH_TRUST_PROXY: 'on' } });

test('an Idempotency-Key of a caller without credentials is that of its network alone', async (t) => {
  const one = await scene(`exports.handler = () => crypto.randomUUID();`);
  await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { access: 'public' } });
  const call = async (address: string, body: object = { order: 7 }) => {
    const answer = await platform().client.call('POST', `/p/${one.project.ref}/functions/v1/${one.fn.slug}`, {
      body,
      headers: { 'x-forwarded-for': address, 'idempotency-key': 'order-7' },
    });
    return { status: answer.status, id: answer.text, isReplay: answer.headers.get('idempotent-replayed') === 'true' };
  };
  const first = await call('192.0.2.1');
  t.deepEqual([first.status, first.isReplay], [200, false]);
  t.deepEqual(await call('192.0.2.1'), { ...first, isReplay: true }, 'the same caller gets the same answer');
  const stranger = await call('192.0.2.2');
  t.deepEqual([stranger.status, stranger.isReplay], [200, false], 'another does not');
  t.not(stranger.id, first.id);
  t.is((await call('192.0.2.3', { order: 8 })).status, 200, 'nor is a key taken for others');
  t.is((await call('192.0.2.1', { order: 8 })).status, 422);
  const headers = { 'idempotency-key': 'order-7' };
  const member = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: null }, headers });
  t.is(member.status, 200, member.text);
});
