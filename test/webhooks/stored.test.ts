import test from 'ava';
import { deleteBeyondQuota, foldStoredChanges, storedBytesOf } from '#domain/functions/stored.ts';
import { newId } from '#lib/ids.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type BareProject, addProject, addWebhook } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });

/** A project on the plan pro with a webhook that nobody is sent from. */
const scene = async () => {
  const project = await addProject(platform(), 'pro');
  const webhook = await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' });
  return { project, webhook };
};

type Scene = Awaited<ReturnType<typeof scene>>;

/** An event whose data take so many bytes, passed on to webhooks or not yet. */
const addEvent = async ({ id: projectId }: BareProject, bytes: number, isFanned = true): Promise<string> => {
  const id = newId();
  await platform().db.query(
    `insert into outbox_events (id, project_id, event, data, fanned_at)
     values ($1, $2, 'auth.login', to_json(repeat('x', $3::int - 2)), case when $4 then now() end)`,
    [id, projectId, bytes, isFanned],
  );
  return id;
};

interface Answered {
  readonly bytes: number;
  readonly status?: 'success' | 'failed';
}

/** A delivery of an event, whose receiver answered so many bytes; one that failed is still to be tried. */
const addDelivery = async (
  { project, webhook }: Scene,
  eventId: string,
  { bytes, status = 'success' }: Answered,
): Promise<string> => {
  const id = newId();
  await platform().db.query(
    `insert into webhook_deliveries (id, webhook_id, project_id, event_id, event, status, next_attempt_at)
     values ($1, $2, $3, $4, 'auth.login', $5, case when $5 = 'failed' then now() + interval '1 hour' end)`,
    [id, webhook.id, project.id, eventId, status],
  );
  await answer(id, bytes);
  return id;
};

const answer = (id: string, bytes: number) =>
  platform().db.query(`update webhook_deliveries set response_body = repeat('y', $2) where id = $1`, [id, bytes]);

const storedOf = ({ project }: Scene): Promise<number> => storedBytesOf(platform().db, project.id);

const eventsOf = async ({ project }: Scene): Promise<string[]> => {
  const rows = await platform().db.query<{ id: string }>(
    'select id from outbox_events where project_id = $1 order by id',
    [project.id],
  );
  return rows.map(({ id }) => id);
};

const answersOf = ({ project }: Scene) =>
  platform().db.query<{ id: string; bytes: number | null; truncated: boolean }>(
    `select id, octet_length(response_body) as bytes, response_truncated as truncated from webhook_deliveries
     where project_id = $1 order by id`,
    [project.id],
  );

const foldAll = async (): Promise<void> => {
  while ((await foldStoredChanges(platform().db, 100)) > 0);
};

const quotas = (pro: number) => ({ free: 1e12, pro, enterprise: 1e12 });

test.serial('events and answers of 2,000 bytes and more count exactly for as long as they are kept', async (t) => {
  const one = await scene();
  const { db } = platform();
  const large = await addEvent(one.project, 50_000, false);
  const small = await addEvent(one.project, 1999);
  t.is(await storedOf(one), 50_000);
  const delivery = await addDelivery(one, large, { bytes: 64_000 });
  await addDelivery(one, small, { bytes: 1999 });
  t.is(await storedOf(one), 114_000);
  await answer(delivery, 30_000);
  await db.query('update outbox_events set fanned_at = now() where id = $1', [large]);
  t.is(await storedOf(one), 80_000);
  await foldAll();
  t.is(await storedOf(one), 80_000);
  await answer(delivery, 10);
  t.is(await storedOf(one), 50_000);
  await answer(delivery, 2000);
  await db.query('delete from outbox_events where project_id = $1', [one.project.id]);
  t.is(await storedOf(one), 2000);
  await db.query('delete from webhook_deliveries where project_id = $1', [one.project.id]);
  t.is(await storedOf(one), 0);
});

test.serial('beyond the quota events, answers and ended jobs go in one order of age, and nothing more', async (t) => {
  const [one, other] = [await scene(), await scene()];
  const { db } = platform();
  const first = await addEvent(one.project, 10_000);
  await addDelivery(one, first, { bytes: 10_000 });
  const job = newId();
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id)
     values ($1, $2, 'test.a', 'succeeded', repeat('x', 10000), 'r')`,
    [job, one.project.id],
  );
  await db.query('update jobs set finished_at = now() where id = $1', [job]);
  const quiet = await addEvent(one.project, 100);
  const answered = await addDelivery(one, quiet, { bytes: 10_000 });
  const last = await addEvent(one.project, 10_000);
  const kept = await addDelivery(one, last, { bytes: 10_000 });
  await addDelivery(other, await addEvent(other.project, 10_000), { bytes: 10_000 });
  await foldAll();
  const present = await storedOf(one);
  const gone = await Promise.all([
    deleteBeyondQuota(db, quotas(present - 15_000), 100),
    deleteBeyondQuota(db, quotas(present - 15_000), 100),
  ]);
  t.deepEqual([await eventsOf(one), gone[0] + gone[1]], [[quiet, last], 1]);
  t.is(await deleteBeyondQuota(db, quotas(20_000), 100), 2);
  t.deepEqual(await db.query('select from jobs where id = $1', [job]), []);
  t.deepEqual(await answersOf(one), [
    { id: answered, bytes: null, truncated: true },
    { id: kept, bytes: 10_000, truncated: false },
  ]);
  t.is(await storedOf(one), 20_000);
  t.is(await storedOf(other), 20_000);
});

test.serial('an event that is to be delivered stays, and loses the answer of its last try only', async (t) => {
  const one = await scene();
  const { db } = platform();
  const waits = await addEvent(one.project, 10_000, false);
  const failing = await addEvent(one.project, 10_000);
  const delivery = await addDelivery(one, failing, { bytes: 10_000, status: 'failed' });
  await addDelivery(await withWebhook(one), failing, { bytes: 10_000 });
  await foldAll();
  await deleteBeyondQuota(db, quotas(0), 100);
  t.deepEqual(await eventsOf(one), [waits, failing]);
  t.deepEqual(
    (await answersOf(one)).map(({ bytes }) => bytes),
    [null, null],
  );
  t.is(await storedOf(one), 20_000);
  t.is(await deleteBeyondQuota(db, quotas(0), 100), 0);
  await db.query('update webhook_deliveries set next_attempt_at = null where id = $1', [delivery]);
  t.is(await deleteBeyondQuota(db, quotas(0), 100), 1);
  t.deepEqual(await eventsOf(one), [waits]);
  t.deepEqual(await answersOf(one), []);
});

/** The same project with another webhook. */
const withWebhook = async (one: Scene): Promise<Scene> => ({
  ...one,
  webhook: await addWebhook(platform(), one.project, { url: 'http://127.0.0.1:1/' }),
});

test.serial('projects of which nothing can be deleted keep no other project waiting', async (t) => {
  const { db } = platform();
  const one = await scene();
  await addDelivery(one, await addEvent(one.project, 5000), { bytes: 5000 });
  const stuck = await Promise.all(Array.from({ length: 100 }, () => addProject(platform(), 'pro')));
  await db.query('insert into stored_bytes (project_id, bytes) select id, 1000000 from unnest($1::uuid[]) as p (id)', [
    stuck.map(({ id }) => id),
  ]);
  await foldAll();
  t.true((await deleteBeyondQuota(db, quotas(0), 1000)) > 0);
  t.is(await storedOf(one), 0);
});
