import test from 'ava';
import { startAiUpstream } from '#test/support/ai-upstream.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { configure, eventsIn, saying } from './chat-scene.ts';

// Beside the streams there are the connections of the preparation, from the same address.
const platform = usePlatform(test, { settings: { PLINTH_CONNECTIONS_PER_ADDRESS: '2000' } });
const streams = 1000;
/** A project of the largest plan has 400 calls under way. */
const projects = 3;

test('a thousand streams are open at once, each is whole, and each is one row', async (t) => {
  const upstream = await startAiUpstream();
  t.teardown(upstream.close);
  const { promise: goesOn, resolve: goOn } = Promise.withResolvers<void>();
  t.teardown(goOn);
  upstream.answerWith(() => ({ hold: { after: 1, until: goesOn } }));
  const { client, base, db } = platform();
  const user = await client.signUp();
  const keys: string[] = [];
  const ids: string[] = [];
  for (let made = 0; made < projects; made += 1) {
    const project = await client.createProject(user, { plan: 'enterprise' });
    await configure(platform(), { user, project }, 'openai', upstream.openai);
    keys.push(project.key);
    ids.push(project.id);
  }
  let open = 0;
  const texts = Array.from({ length: streams }, async (_, index) => {
    const answer = await fetch(`${base}/api/ai/chat/stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', apikey: keys[index % projects] ?? '' },
      body: JSON.stringify(saying(`number ${index}`)),
    });
    if (answer.status === 200) open += 1;
    return answer.text();
  });
  await until(() => open === streams);
  goOn();
  for (const [index, text] of texts.entries()) {
    const events = eventsIn(await text);
    t.is(events.map(({ chunk = '' }) => chunk).join(''), `You said: number ${index}`);
    t.true(events.at(-1).done);
  }
  const ended = () =>
    db.query<{ calls: number }>(
      `select count(*) as calls from ai_calls where project_id = any($1::uuid[]) and status = 'success'`,
      [ids],
    );
  await until(async () => (await ended())[0]?.calls === streams);
  const [all] = await db.query<{ calls: number }>(
    'select count(*) as calls from ai_calls where project_id = any($1::uuid[])',
    [ids],
  );
  t.is(all?.calls, streams);
});
