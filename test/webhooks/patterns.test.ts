import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { patternsOf } from '#domain/webhooks/subscriptions.ts';
import type { Queryable } from '#lib/control-db.ts';
import { usePlatform } from '#test/support/platform.ts';
import { receiverUrl, webhookScene } from './api-scene.ts';
import { type BareProject, addProject, addWebhook, deliveriesOf } from './pipeline-scene.ts';

const platform = usePlatform(test);

/** Webhooks of a project, without the triggers: their entries of the audit log would take a minute. */
const addMany = async (projectId: string, count: number, eventsSql: string): Promise<void> => {
  await platform().db.transaction(async (tx) => {
    await tx.query(`set local session_replication_role = replica`);
    await tx.query(
      `with made as (
         insert into webhooks (id, project_id, url, events, secret_sealed, is_active)
         select uuid_v7(), $1, 'http://127.0.0.1:9/', ${eventsSql}, '', false from generate_series(1, $2::int) as n
         returning id, project_id, events
       ), lanes as (insert into webhook_throttles (webhook_id) select id from made)
       insert into webhook_patterns select project_id, pattern, id from made, unnest(events) as pattern`,
      [projectId, count],
    );
  });
};

/** How many rows of webhooks and what they ask for this transaction has looked at. */
const rowsRead = async (tx: Queryable): Promise<number> => {
  const [row] = await tx.query<{ read: number }>(
    `select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read from pg_stat_xact_user_tables
     where relname in ('webhooks', 'webhook_patterns')`,
  );
  return row?.read ?? 0;
};

/** The cost of committing an event, and whether it is kept; the event is gone again. */
const costOf = async (projectId: string, event: string): Promise<{ read: number; kept: boolean }> => {
  const undone = new Error('undone');
  const seen = { read: -1, kept: false };
  await platform()
    .db.transaction(async (tx) => {
      const kept = await tx.query(
        `insert into outbox_events (project_id, event, data) values ($1, $2, '{}') returning id`,
        [projectId, event],
      );
      seen.kept = kept.length > 0;
      seen.read = await rowsRead(tx);
      throw undone;
    })
    .catch((error: unknown) => {
      if (error !== undone) throw error;
    });
  return seen;
};

test('an event costs what it matches, whatever its project and others ask for', async (t) => {
  const { db } = platform();
  const [allProjects, other] = [await addProject(platform()), await addProject(platform())];
  await addMany(
    allProjects.id,
    20_000,
    `array['*', 'table.t' || n % 1000 || '.INSERT', 'auth.login', 'payments.stripe.*']`,
  );
  const webhook = await addWebhook(platform(), other, { url: receiverUrl, events: ['auth.signup'], active: false });
  // Most rows are of one project, and the planner knows.
  await db.query('analyze webhooks, webhook_patterns');
  for (const [project, event, kept] of [
    [allProjects, 'auth.login', true],
    [other, 'auth.login', false],
    [other, 'auth.signup', true],
  ] as const) {
    const cost = await costOf(project.id, event);
    t.is(cost.kept, kept);
    t.true(cost.read < 20, `${event}: ${cost.read} rows`);
  }
  await db.transaction(async (tx) => {
    await tx.query(`insert into outbox_events (project_id, event, data) values ($1, 'auth.signup', '{}')`, [other.id]);
    const before = await rowsRead(tx);
    t.like(await fanOut(tx), { deliveries: 1 });
    const read = (await rowsRead(tx)) - before;
    t.true(read < 20, `${read} rows`);
  });
  t.is((await deliveriesOf(platform(), webhook.id)).length, 1);
});

const requested = async (project: BareProject): Promise<string[]> => patternsOf(platform().db, project.id);
const sorted = (...patterns: string[]): string[] => patterns.toSorted();
const wanted = async (project: BareProject): Promise<boolean> => {
  const gone = await platform().db.query('delete from subscriptions_to_set where project_id = $1 returning *', [
    project.id,
  ]);
  return gone.length > 0;
};

test('what webhooks ask for follows them, and a database is told only of the first and the last', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  const set = (sql: string, id: string) =>
    db.transaction((tx) => tx.query(`update webhooks set ${sql} where id = $1`, [id]), systemActor);
  const first = await addWebhook(platform(), project, { url: receiverUrl, events: ['functions.error', 'table.a.*'] });
  t.true(await wanted(project));
  const second = await addWebhook(platform(), project, { url: receiverUrl, events: ['table.a.*', 'flag.*'] });
  t.false(await wanted(project), 'somebody asks for that already');
  t.deepEqual(await requested(project), sorted('functions.error', 'table.a.*', 'flag.*'));
  await set(`events = '{table.a.*,functions.invoked}'`, second.id);
  t.deepEqual(await requested(project), sorted('functions.error', 'functions.invoked', 'table.a.*'));
  await set('is_active = false', first.id);
  await set('deleted_at = now()', first.id);
  t.false(await wanted(project), 'somebody asks for it still');
  t.deepEqual(await requested(project), sorted('functions.invoked', 'table.a.*'));
  await set(`events = '{table.a.*,table.a.*,db.insert}'`, second.id);
  t.true(await wanted(project));
  await set('deleted_at = now()', second.id);
  t.true(await wanted(project));
  t.deepEqual(await requested(project), []);
});

test('two who ask for the same at the same moment do not both leave it to the other', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  const [first, second] = [
    await addWebhook(platform(), project, { url: receiverUrl, events: ['table.a.*'] }),
    await addWebhook(platform(), project, { url: receiverUrl, events: ['table.a.*'] }),
  ];
  await wanted(project);
  await Promise.all(
    [first, second].map(({ id }) =>
      db.transaction((tx) => tx.query('update webhooks set deleted_at = now() where id = $1', [id]), systemActor),
    ),
  );
  t.true(await wanted(project));
});

test('all webhooks of a project ask for 2,000 different names at most', async (t) => {
  const { ask, made, project } = await webhookScene(platform());
  await addMany(
    project.id,
    20,
    `array(select 'table.t' || n || '_' || i || '.INSERT' from generate_series(1, 100) as i)`,
  );
  const refused = await ask('POST', '/webhooks', { url: receiverUrl, events: ['table.more.INSERT'] });
  t.is(refused.status, 403);
  t.is(refused.body.code, 'plan_limit_exceeded');
  t.regex(String(refused.body.hint), /groups/);
  const id = await made({ events: ['table.t1_1.INSERT'] });
  t.is((await ask('PUT', `/webhooks/${id}`, { events: ['table.t1_1.INSERT', 'db.*'] })).status, 403);
  t.is((await ask('PUT', `/webhooks/${id}`, { name: 'named' })).status, 200);
  t.is((await ask('PUT', `/webhooks/${id}`, { events: ['table.t1_2.INSERT'] })).status, 200);
  t.is((await patternsOf(platform().db, project.id)).length, 2000);
});

const patterns = async (event: string): Promise<string[]> =>
  (await platform().db.query<{ of: string[] }>('select event_patterns($1) as of', [event]))[0]?.of ?? [];

test('every beginning of a payment’s type can be subscribed to, however deep it is', async (t) => {
  const event = 'payments.stripe.customer.subscription.trial.created';
  const answers = await patterns(event);
  for (const depth of [1, 2, 3, 4, 5]) {
    const group = `${event.split('.').slice(0, depth).join('.')}.*`;
    t.true(answers.includes(group), group);
  }
  t.false(answers.includes(`${event}.*`));
  // No more than can be asked for.
  t.true((await patterns(`payments.stripe${'.x'.repeat(5000)}`)).length <= 110);
});
