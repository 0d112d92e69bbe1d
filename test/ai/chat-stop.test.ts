import test from 'ava';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { usePlatform } from '#test/support/platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { createScene, eventsIn, saying } from './chat-scene.ts';

const platform = usePlatform(test);

const canConnect = (base: string): Promise<boolean> =>
  fetch(`${base}/healthz`).then(
    (answer) => answer.body?.cancel().then(() => true) ?? true,
    () => false,
  );

test('an API that is told to stop takes nothing new, and lets streams come to their ends', async (t) => {
  t.timeout(longTestMs);
  const { project, upstream } = await createScene(platform());
  t.teardown(upstream.close);
  const { promise: goesOn, resolve: goOn } = Promise.withResolvers<void>();
  upstream.answerWith(() => ({ hold: { after: 2, until: goesOn } }));
  const api = startProcess('api/server.ts', { ...environmentOf(platform().config), PORT: '0', DRAIN_MS: '60000' });
  t.teardown(() => api.child.kill('SIGKILL'));
  const base = `http://127.0.0.1:${(await api.ready).port}`;

  const answer = await fetch(`${base}/api/ai/chat/stream`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', apikey: project.key },
    body: JSON.stringify(saying('a long story')),
  });
  t.is(answer.status, 200);
  api.child.kill('SIGTERM');
  await until(async () => !(await canConnect(base)));
  goOn();
  const events = eventsIn(await answer.text());
  t.is(events.map(({ chunk = '' }) => chunk).join(''), 'You said: a long story');
  t.true(events.at(-1).done);
  t.is(await api.end, 0, api.stderr());
  const rows = await platform().db.query<{ status: string }>('select status from ai_calls where project_id = $1', [
    project.id,
  ]);
  t.deepEqual(rows, [{ status: 'success' }]);
});
