import test from 'ava';
import { backlogged, fanOut, hasWaitingEvents } from '#domain/webhooks/fan-out.ts';
import type { Tx } from '#lib/control-db.ts';
import { usePlatform } from '#test/support/platform.ts';
import { many, throttleScene, url } from './throttle-scene.ts';
import { addProject, addWebhook, emit, throttleOf } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });

const { pumpThese, underWay, end, withBacklog } = throttleScene(platform);

test.serial('one that was never reached has one try at a time; after a quick success its quarter', async (t) => {
  const { project, ids } = await withBacklog('pro', 1);
  const [id = ''] = ids;
  await pumpThese(ids);
  const [first, ...more] = await underWay(project);
  t.deepEqual(more, []);
  if (first) await end(first);
  await pumpThese(ids);
  t.is((await underWay(project)).length, 12);
  for (const tried of (await underWay(project)).slice(0, 11)) await end(tried, { ms: 2500 });
  await pumpThese(ids);
  // Slow ones only: the one that is under way still counts.
  t.is((await underWay(project)).length, 1);
  t.is((await throttleOf(platform(), id)).failures, 0);
});

test.serial('a try that hung counts as two failures', async (t) => {
  const { project, ids } = await withBacklog('free', 1);
  await pumpThese(ids);
  for (const tried of await underWay(project)) await end(tried, { error: 'no answer', ms: 15_000 });
  t.is((await throttleOf(platform(), ids[0] ?? '')).failures, 2);
  await pumpThese(ids);
  for (const tried of await underWay(project)) await end(tried, { error: 'answered 500', ms: 15 });
  t.is((await throttleOf(platform(), ids[0] ?? '')).failures, 3);
});

test.serial('all webhooks of a project that are not quick have a quarter between them, and take turns', async (t) => {
  const { project, ids } = await withBacklog('free', 6);
  const quick = await addWebhook(platform(), project, { url });
  await emit(platform(), project.id, 'auth.login', many(5));
  await fanOut(platform().db);
  await pumpThese([...ids, quick.id]);
  const seen = new Set<string>();
  for (let turn = 0; turn < 3; turn += 1) {
    const tried = (await underWay(project)).filter((row) => row.webhook_id !== quick.id);
    t.is(tried.length, 2);
    for (const each of tried) {
      seen.add(each.webhook_id);
      await end(each, { error: 'no answer', ms: 15_000 });
    }
    // The end of an attempt polls its own webhook; those that wait are found with it.
    await pumpThese(tried.map((each) => each.webhook_id));
  }
  t.is(seen.size, 6);
  t.is((await underWay(project)).filter((row) => row.webhook_id === quick.id).length, 2);
});

/** While somebody holds the throttle. */
const holding = async <T>(webhookId: string, work: () => Promise<T>): Promise<T> => {
  const lockedElsewhere = Promise.withResolvers<void>();
  const done = Promise.withResolvers<void>();
  const holder = platform().db.transaction(async (tx: Tx) => {
    await tx.query('select from webhook_throttles where webhook_id = $1 for no key update', [webhookId]);
    lockedElsewhere.resolve();
    await done.promise;
  });
  await lockedElsewhere.promise;
  try {
    return await work();
  } finally {
    done.resolve();
    await holder;
  }
};

test.serial('a locked throttle delays neither the records nor the deliveries of other webhooks', async (t) => {
  const a = await withBacklog('free', 1);
  const b = await withBacklog('free', 1);
  const [aId = '', bId = ''] = [...a.ids, ...b.ids];
  await pumpThese([aId, bId]);
  const [[ofA], [ofB]] = [await underWay(a.project), await underWay(b.project)];
  if (ofA === undefined || ofB === undefined) throw new Error('nothing is under way');
  await holding(aId, async () => {
    t.deepEqual([...(await end(ofA, { error: 'no answer' }))], [aId]);
    t.is((await end(ofB)).size, 0);
    t.deepEqual((await pumpThese([aId, bId])).lockedElsewhereIds, [aId]);
    // The held one waits, whole.
    t.deepEqual(await underWay(a.project), [ofA]);
    t.is((await underWay(b.project)).length, 2);
  });
  t.is((await end(ofA, { error: 'no answer' })).size, 0);
  t.is((await throttleOf(platform(), aId)).failures, 1);
  t.deepEqual((await pumpThese([aId])).lockedElsewhereIds, []);
});

const bulk = (projectId: string, count: number) =>
  platform().db.transaction((tx) =>
    // Without the triggers: an entry of the audit log each takes its time.
    tx.query('set local session_replication_role = replica').then(() =>
      tx.query(
        `with made as (
             insert into webhooks (id, project_id, url, events, secret_sealed, is_active)
             select uuid_v7(), $1, 'http://127.0.0.1:9/', '{*}', '', false from generate_series(1, $2) returning id
           ), lanes as (insert into webhook_throttles (webhook_id) select id from made)
           insert into webhook_patterns (project_id, pattern, webhook_id) select $1, '*', id from made`,
        [projectId, count],
      ),
    ),
  );

test.serial('whoever a pass of the fan-out leaves out is first in the next, however busy the others', async (t) => {
  const { db } = platform();
  const projects = await Promise.all([addProject(platform()), addProject(platform()), addProject(platform())]);
  const sorted = projects.map(({ id }) => id).toSorted();
  const last = projects.find(({ id }) => id === sorted[2]);
  for (const id of sorted.slice(0, 2)) {
    await bulk(id, 1500);
    await emit(platform(), id, 'auth.login', many(3));
  }
  if (last) await addWebhook(platform(), last, { url, active: false });
  await emit(platform(), sorted[2] ?? '', 'auth.login');
  const waits = async () =>
    (await db.query('select from outbox_events where project_id = $1 and fanned_at is null', [sorted[2]])).length > 0;
  const first = await fanOut(db);
  t.true(await waits());
  t.is(first.next, sorted[1] ?? '');
  await fanOut(db, first.next);
  t.false(await waits());
  await db.query('update outbox_events set fanned_at = now() where fanned_at is null');
});

test.serial('events of a project wait while too many of its deliveries do; so do those in its outbox', async (t) => {
  const { db } = platform();
  const busy = await withBacklog('free', 1);
  const other = await withBacklog('free', 1);
  await emit(platform(), busy.project.id, 'auth.login', many(3));
  const waiting = (projectId: string) =>
    db.query('select from outbox_events where project_id = $1 and fanned_at is null', [projectId]);
  t.deepEqual(await backlogged(db, 21), []);
  t.deepEqual(await backlogged(db, 20), [busy.project.id]);
  await emit(platform(), other.project.id, 'auth.login', many(3));
  await fanOut(db, null, { except: [busy.project.id] });
  t.is((await waiting(busy.project.id)).length, 3);
  t.is((await waiting(other.project.id)).length, 0);
  t.true(await hasWaitingEvents(db, busy.project.id, 2));
  t.false(await hasWaitingEvents(db, busy.project.id, 3));
  t.false(await hasWaitingEvents(db, other.project.id, 0));
  await fanOut(db);
  t.is((await waiting(busy.project.id)).length, 0);
});
