import test from 'ava';
import { uniqueName } from '#test/support/client.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { dead, seedJobs, seedProjects } from './scene.ts';

const platform = usePlatform(test, { worker: false });

const post = (path: string, key: string, body?: unknown) =>
  platform().client.call('POST', `/ops/api${path}`, {
    token: opsToken,
    headers: { 'idempotency-key': key },
    ...(body !== undefined && { body }),
  });

const statusOf = async (id: string): Promise<unknown> =>
  (await platform().client.call('GET', `/ops/api/jobs/${id}`, { token: opsToken })).body.status;

const letters = async (count: number): Promise<{ projectId: string; ids: string[] }> => {
  const [project] = await seedProjects(platform().db, 1);
  const projectId = project?.id ?? '';
  const ids = await seedJobs(
    platform().db,
    Array.from({ length: count }, () => dead(projectId)),
  );
  return { projectId, ids };
};

const dieAgain = (ids: readonly string[]) =>
  platform().db.query(`update jobs set status = 'dead', finished_at = now() where id = any ($1)`, [ids]);

test('a retry with the same key is done once and replayed', async (t) => {
  const { ids } = await letters(1);
  const [id = ''] = ids;
  const key = uniqueName('key');
  const first = await post(`/jobs/${id}/retry`, key);
  t.is(first.status, 202);
  t.is(first.headers.get('idempotent-replayed'), null);
  await dieAgain(ids);
  const again = await post(`/jobs/${id}/retry`, key);
  t.is(again.status, 202);
  t.is(again.headers.get('idempotent-replayed'), 'true');
  t.deepEqual(again.body, first.body);
  t.is(await statusOf(id), 'dead');
  t.is((await post(`/jobs/${id}/retry`, uniqueName('key'))).status, 202);
  t.is(await statusOf(id), 'queued');
});

test('a redrive with the same key is done once and replayed; with another body it is 422', async (t) => {
  const { projectId, ids } = await letters(3);
  const key = uniqueName('key');
  const first = await post('/dead/redrive', key, { project_id: projectId });
  t.deepEqual(first.body, { redriven: 3, remaining: 0 });
  await dieAgain(ids);
  const again = await post('/dead/redrive', key, { project_id: projectId });
  t.is(again.headers.get('idempotent-replayed'), 'true');
  t.deepEqual(again.body, first.body);
  t.deepEqual(await Promise.all(ids.map(statusOf)), ['dead', 'dead', 'dead']);
  t.is((await post('/dead/redrive', key, { ids })).status, 422);
});

test('a retry that is refused leaves the key free', async (t) => {
  const { projectId } = await letters(0);
  const [id = ''] = await seedJobs(platform().db, [{ projectId, status: 'succeeded' }]);
  const key = uniqueName('key');
  t.is((await post(`/jobs/${id}/retry`, key)).status, 409);
  await dieAgain([id]);
  const answer = await post(`/jobs/${id}/retry`, key);
  t.is(answer.status, 202);
  t.is(answer.headers.get('idempotent-replayed'), null);
});

test('what is retried and redriven waits at the gate once that is answered', async (t) => {
  const { ids } = await letters(3);
  const [first = '', ...others] = ids;
  await post(`/jobs/${first}/retry`, uniqueName('key'));
  await post('/dead/redrive', uniqueName('key'), { ids: others });
  for (const id of ids) {
    const { body } = await platform().client.call('GET', `/ops/api/jobs/${id}`, { token: opsToken });
    t.not(body.place.state, 'absent', id);
  }
});
