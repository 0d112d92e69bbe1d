import test from 'ava';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { webhooksWithWork } from '#domain/webhooks/scheduler.ts';
import { usePlatform } from '#test/support/platform.ts';
import { throttleScene, url } from './throttle-scene.ts';
import { addProject, addWebhook, emit } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });
const { pumpThese, underWay, end, withForgotten } = throttleScene(platform);

// One after the other: a pass of the fan-out leaves events alone that another one has under way.
for (const [what, quick] of [
  ['a quick webhook', true],
  ['a webhook that is not known to be quick', false],
] as const) {
  test.serial(
    `${what} has something to do from an event to the look after its last try, and nothing before and after`,
    async (t) => {
      const { db } = platform();
      const project = await addProject(platform(), 'pro');
      const { id } = await addWebhook(platform(), project, { url, quick });
      const hasWork = async (): Promise<boolean> => (await webhooksWithWork(db, [id])).includes(id);
      t.false(await hasWork());
      await emit(platform(), project.id, 'auth.login');
      await fanOut(db);
      t.true(await hasWork());
      await pumpThese([id]);
      const [tried] = await underWay(project);
      t.truthy(tried);
      // Other webhooks must learn of one that is not quick.
      t.is(await hasWork(), !quick);
      if (tried !== undefined) await end(tried, { error: 'no answer' });
      t.true(await hasWork());
      await pumpThese([id]);
      t.true(await hasWork(), 'its next try waits');
      await db.query('update webhook_deliveries set next_attempt_at = now() where webhook_id = $1', [id]);
      await db.query('update webhook_throttles set next_at = now() where webhook_id = $1', [id]);
      await pumpThese([id]);
      for (const again of await underWay(project)) await end(again);
      await pumpThese([id]);
      t.false(await hasWork());
    },
  );
}

test.serial('what waits is found though nobody noted it', async (t) => {
  const { db } = platform();
  const { id } = await withForgotten();
  t.deepEqual(await webhooksWithWork(db, [id]), [id]);
});
