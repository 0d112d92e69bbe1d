import test from 'ava';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { makeSecret, sealSecret } from '#domain/webhooks/secrets.ts';
import { newId } from '#lib/ids.ts';
import { usePlatform } from '#test/support/platform.ts';
import { receiverFor, withStatus } from '#test/support/receiver.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import {
  type BareProject,
  addProject,
  addWebhook,
  deliveriesOf,
  deliveriesWhen,
  emit,
  hasStatus,
  throttleOf,
} from './pipeline-scene.ts';

const platform = usePlatform(test);

const many = (count: number): string[] => Array.from({ length: count }, () => '{}');

test('a webhook has at most a quarter of what its project may have running, at any instant', async (t) => {
  const receiver = await receiverFor(t);
  const waiting: (() => void)[] = [];
  let isHeld = true;
  let max = 0;
  receiver.answer((response) => {
    waiting.push(() => response.end());
    max = Math.max(max, waiting.length);
    // Held longer they would be taken for slow, and have one try at a time.
    if (!isHeld) for (const answer of waiting.splice(0)) answer();
  });
  const project = await addProject(platform(), 'pro');
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  await emit(platform(), project.id, 'auth.login', many(40));
  // A quarter of 50.
  await until(() => waiting.length === 12);
  const [row] = await platform().db.query<{ under_way: number }>(
    'select count(*) as under_way from webhook_deliveries where webhook_id = $1 and job_id is not null',
    [webhook.id],
  );
  t.is(row?.under_way, 12);
  isHeld = false;
  for (const answer of waiting.splice(0)) answer();
  await deliveriesWhen(platform(), webhook.id, { count: 40, fits: hasStatus('success') });
  t.is(max, 12);
});

test('one that hangs leaves room for the others of its project; what operators set counts', async (t) => {
  const receiver = await receiverFor(t);
  let [hanging, maxHanging] = [0, 0];
  receiver.answer((response, { path }) => {
    if (path === '/ok') return void response.end();
    hanging += 1;
    maxHanging = Math.max(maxHanging, hanging);
    response.on('close', () => (hanging -= 1));
  });
  const project = await addProject(platform());
  await platform().db.transaction(
    (tx) =>
      tx.query(`insert into job_limits (project_id, type, running) values ($1, 'webhook.deliver', 4)`, [project.id]),
    { 'plinth.actor': '{"type":"system"}' },
  );
  await addWebhook(platform(), project, { url: `${receiver.url}/hang`, events: ['auth.login'] });
  const ok = await addWebhook(platform(), project, { url: `${receiver.url}/ok`, events: ['auth.signup'] });
  await emit(platform(), project.id, 'auth.login', many(20));
  await receiver.when(1);
  await emit(platform(), project.id, 'auth.signup', many(20));
  await deliveriesWhen(platform(), ok.id, { count: 20, fits: hasStatus('success') });
  t.is(maxHanging, 1);
});

test('what a webhook’s rate does not allow waits, and is sent as it does', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform(), 'enterprise');
  const webhook = await addWebhook(platform(), project, { url: receiver.url, rate: 5 });
  const began = Date.now();
  await emit(platform(), project.id, 'auth.login', many(15));
  await deliveriesWhen(platform(), webhook.id, { count: 15, fits: hasStatus('success') });
  // Five at once, the other ten need two seconds: a bucket that ran over would have been quicker.
  t.true(Date.now() - began >= 1900);
  t.true((await throttleOf(platform(), webhook.id)).tokens < 5);
});

test('a paused project’s deliveries wait', async (t) => {
  const { db } = platform();
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  const other = await addWebhook(platform(), await addProject(platform()), { url: receiver.url });
  const setStatus = (status: string) =>
    db.transaction((tx) => tx.query('update projects set status = $2 where id = $1', [project.id, status]), {
      'plinth.actor': '{"type":"system"}',
    });
  await setStatus('paused');
  await emit(platform(), project.id, 'auth.login');
  // Looked at, and put off.
  await until(async () => ((await throttleOf(platform(), webhook.id)).next_at?.getTime() ?? 0) > Date.now() + 5000);
  t.deepEqual(
    (await deliveriesOf(platform(), webhook.id)).map(({ status, job_id: job }) => [status, job]),
    [['pending', null]],
  );
  await setStatus('active');
  await db.query('update webhook_throttles set next_at = now() where webhook_id = $1', [webhook.id]);
  await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('success') });
  t.is(receiver.received.length, 1);
  t.deepEqual(await deliveriesOf(platform(), other.id), []);
});

const addMany = async ({ id, sealer }: BareProject, url: string, count: number): Promise<void> => {
  const ids = Array.from({ length: count }, newId);
  await platform().db.transaction(
    (tx) =>
      tx.query(
        `insert into webhooks (id, project_id, url, events, secret_sealed)
         select id, $2, $3, '{auth.login}', sealed from unnest($1::uuid[], $4::bytea[]) as new (id, sealed)`,
        [ids, id, url, ids.map((each) => sealSecret(sealer, each, makeSecret()))],
      ),
    { 'plinth.actor': '{"type":"system"}' },
  );
};

test('ten thousand webhooks hear of one event, and others meanwhile of theirs', async (t) => {
  t.timeout(longTestMs);
  const receiver = await receiverFor(t);
  const project = await addProject(platform(), 'enterprise');
  const count = 10_000;
  const lockedElsewhere: (() => void)[] = [];
  let isHeld = true;
  receiver.answer((response, { path }) => {
    if (isHeld && path === '/many') lockedElsewhere.push(() => response.end());
    else response.end();
  });
  await addMany(project, `${receiver.url}/many`, count);
  const other = await addWebhook(platform(), await addProject(platform()), { url: `${receiver.url}/other` });
  await emit(platform(), project.id, 'auth.login');
  await until(async () => {
    const [row] = await platform().db.query<{ made: number }>(
      'select count(*) as made from webhook_deliveries where project_id = $1',
      [project.id],
    );
    return row?.made === count;
  });
  await emit(platform(), await projectOf(other.id), 'auth.signup');
  // None of the ten thousand has had its answer yet.
  await deliveriesWhen(platform(), other.id, { fits: hasStatus('success') });
  t.true(receiver.received.length < count);
  isHeld = false;
  for (const answer of lockedElsewhere.splice(0)) answer();
  // The rest is only more of the same: nobody waits for it.
  await platform().db.query(
    `update webhook_deliveries set status = 'skipped', next_attempt_at = null where project_id = $1 and job_id is null`,
    [project.id],
  );
});

const projectOf = async (webhookId: string): Promise<string> => {
  const [row] = await platform().db.query<{ project_id: string }>('select project_id from webhooks where id = $1', [
    webhookId,
  ]);
  return row?.project_id ?? '';
};

test('a pass over waiting events takes some of each project, however many one has', async (t) => {
  const { db } = platform();
  const projects = await Promise.all([addProject(platform()), addProject(platform()), addProject(platform())]);
  for (const project of projects) {
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/', active: false });
  }
  // In a transaction that is rolled back: the worker sees none of it.
  const seen = await db
    .transaction(async (tx) => {
      await tx.query(
        `insert into outbox_events (project_id, event, data)
         select id, 'auth.login', '{}' from unnest($1::uuid[], $2::int[]) as p (id, n), generate_series(1, n)`,
        [projects.map(({ id }) => id), [5000, 3, 700]],
      );
      await fanOut(tx);
      const rows = await tx.query<{ n: number }>(
        `select count(*) as n from outbox_events where project_id = any ($1) and fanned_at is not null
         group by project_id order by n`,
        [projects.map(({ id }) => id)],
      );
      throw Object.assign(new Error('rolled back'), { seen: rows.map(({ n }) => n) });
    })
    .catch((error: unknown) => Reflect.get(Object(error), 'seen') as unknown);
  const [min, ...shares] = seen as number[];
  t.is(min, 3);
  // Events of other tests may wait, too.
  t.is(shares[0], shares[1]);
  t.true((shares[0] ?? 0) > 3 && (shares[0] ?? 0) <= 84);
});

test('a try that hangs or never ends does not hold up its neighbours; each kind of failure says what it is', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform(), 'enterprise');
  receiver.answer((response, received) => {
    const answers: Record<string, () => void> = {
      '/reset': () => response.socket?.resetAndDestroy(),
      '/away': () => withStatus(301, { Location: `${receiver.url}/ok` })(response, received),
      '/huge': () => {
        response.on('error', () => undefined);
        const more = (): void => {
          while (!response.destroyed && response.write(Buffer.alloc(1024 * 1024)));
          if (!response.destroyed) response.once('drain', more);
        };
        more();
      },
    };
    (answers[received.path] ?? (() => response.end()))();
  });
  const failures = {
    '/reset': /closed the connection/,
    '/away': /answered 301: redirects are not followed/,
  } as const;
  for (const [path, error] of Object.entries(failures)) {
    const webhook = await addWebhook(platform(), project, { url: `${receiver.url}${path}`, events: [`auth.login`] });
    await emit(platform(), project.id, 'auth.login');
    const [row] = await until(async () => {
      const rows = await deliveriesOf(platform(), webhook.id);
      return rows.length > 0 && rows[0]?.attempt === 1 && rows;
    });
    t.regex(row?.error ?? '', error);
  }
  const huge = await addWebhook(platform(), project, { url: `${receiver.url}/huge`, events: ['auth.signup'] });
  const tls = await addWebhook(platform(), project, {
    url: receiver.url.replace('http:', 'https:'),
    events: ['auth.signup'],
  });
  await emit(platform(), project.id, 'auth.signup');
  const [kept] = await deliveriesWhen(platform(), huge.id, { fits: hasStatus('success') });
  t.is(kept?.response_body?.length, 64 * 1024);
  const [refused] = await deliveriesWhen(platform(), tls.id, { fits: hasStatus('failed') });
  t.regex(refused?.error ?? '', /no safe connection|closed the connection|connection/);
  t.is(refused?.status_code, null);
  t.false(receiver.received.some(({ path }) => path === '/ok'));
});
