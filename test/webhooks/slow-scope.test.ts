import test from 'ava';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { usePlatform } from '#test/support/platform.ts';
import { many, throttleScene } from './throttle-scene.ts';
import { type BareProject, emit, throttleOf } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });
const { pumpThese, underWay, end, withBacklog } = throttleScene(platform);

/** Slots of all projects; each of them may have two. */
const slowAtOnce = 5;
const hung = { error: 'no answer', ms: 15_000 } as const;

interface Backlog {
  readonly project: BareProject;
  readonly ids: readonly string[];
}

const underWayOf = async (all: readonly Backlog[]) =>
  (await Promise.all(all.map(({ project }) => underWay(project)))).flat();

const withBacklogs = async (projects: number, webhooksEach: number): Promise<Backlog[]> => {
  const all: Backlog[] = [];
  for (let n = 0; n < projects; n += 1) all.push(await withBacklog('free', webhooksEach));
  return all;
};

test.serial.beforeEach(async () => {
  await platform().db.query('update webhook_deliveries set job_id = null, next_attempt_at = null');
  await platform().db.query('update webhook_throttles set slow_scope = null, waits_since = null, next_at = null');
});

test.serial(
  'webhooks that are not quick have so many tries at a time, of all projects, and all have a turn',
  async (t) => {
    const allProjects = await withBacklogs(4, 3);
    const ids = allProjects.flatMap((each) => each.ids);
    await pumpThese(ids, slowAtOnce);
    const seen = new Set<string>();
    for (let turn = 0; turn < 8 && seen.size < ids.length; turn += 1) {
      const tried = await underWayOf(allProjects);
      t.is(tried.length, slowAtOnce);
      for (const each of tried) {
        seen.add(each.webhook_id);
        await end(each, hung);
      }
      // The end of an attempt polls its own webhook; those of other projects are found with it.
      await pumpThese(
        tried.map((each) => each.webhook_id),
        slowAtOnce,
      );
    }
    t.is(seen.size, ids.length);
    for (const { project } of allProjects) t.true((await underWay(project)).length <= 2);
  },
);

test.serial('however many hang, what is quick goes on, and one that was never reached waits its turn', async (t) => {
  const allProjects = await withBacklogs(3, 2);
  const quick = await withBacklog('pro', 1, true);
  await pumpThese([...allProjects.flatMap((each) => each.ids), ...quick.ids], slowAtOnce);
  t.is((await underWay(quick.project)).length, 12);
  const late = await withBacklog('free', 1);
  await pumpThese(late.ids, slowAtOnce);
  t.deepEqual(await underWay(late.project), []);
  const throttle = await throttleOf(platform(), late.ids[0] ?? '');
  t.not(throttle.next_at, null);
  t.not(throttle.waits_since, null);
  // One of the large number has waited for longer.
  for (let turn = 0; turn < 2; turn += 1) {
    const [tried] = await underWayOf(allProjects);
    if (tried) await end(tried, hung);
    t.is((await underWay(late.project)).length, 0);
    await pumpThese([tried?.webhook_id ?? ''], slowAtOnce);
  }
  t.is((await underWay(late.project)).length, 1);
});

test.serial('one that got quick does not wait for those that hang any more', async (t) => {
  const allProjects = await withBacklogs(3, 2);
  await pumpThese(
    allProjects.flatMap((each) => each.ids),
    slowAtOnce,
  );
  const waiting = allProjects.flatMap((each) => each.ids);
  const busy = new Set((await underWayOf(allProjects)).map((tried) => tried.webhook_id));
  const lockedElsewhere = waiting.find((id) => !busy.has(id)) ?? '';
  await platform().db.query('update webhook_throttles set is_quick = true where webhook_id = $1', [lockedElsewhere]);
  await pumpThese([lockedElsewhere], slowAtOnce);
  const throttle = await throttleOf(platform(), lockedElsewhere);
  t.is(throttle.slow_scope, null);
  t.is(throttle.waits_since, null);
});

test.serial('room that is made by a deleted webhook is found at the next look at any webhook', async (t) => {
  const allProjects = await withBacklogs(3, 2);
  await pumpThese(
    allProjects.flatMap((each) => each.ids),
    slowAtOnce,
  );
  const [gone] = await underWayOf(allProjects);
  await platform().db.query('delete from webhook_throttles where webhook_id = $1', [gone?.webhook_id]);
  const quick = await withBacklog('pro', 1, true);
  await emit(platform(), quick.project.id, 'auth.login', many(1));
  await fanOut(platform().db);
  await pumpThese(quick.ids, slowAtOnce);
  t.is((await underWayOf(allProjects)).length, slowAtOnce + 1);
});
