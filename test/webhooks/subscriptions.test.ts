import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { userEventNames } from '#domain/events/subscriptions.ts';
import { faultOfPattern, tableSubscriptionsOf } from '#domain/events/events.ts';
import { applySubscriptions, applyWaiting } from '#domain/webhooks/subscriptions.ts';
import { createDatabaseServers } from '#domain/database-servers/database-servers.ts';
import type { SubscriptionsDeps } from '#domain/events/subscriptions.ts';
import { type TestUser, uniqueName } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { receiverUrl, sceneIn } from './api-scene.ts';

const platform = usePlatform(test);

let owner: TestUser;
let deps: SubscriptionsDeps;

test.before(async () => {
  owner = await platform().client.signUp();
  const { db, config } = platform();
  const sealer = { seal: () => Buffer.of(), open: () => '', keyFor: () => Buffer.alloc(32) };
  deps = { db, servers: createDatabaseServers({ db, sealer, controlUrl: config.DATABASE_URL, log: memoryLog().log }) };
});

const scene = async () => {
  const project = await platform().client.createProject(owner);
  const subscribed = () =>
    asAdmin(project.dbName, async (client) => {
      const { rows } = await client.query<{ one: string }>(
        `select coalesce(op, '*') || ' ' || coalesce(table_name, '*') as one from plinth.subscriptions order by 1`,
      );
      return rows.map(({ one }) => one);
    });
  return { ...sceneIn(platform(), owner, project), subscribed };
};

const toBeSet = async (projectId: string): Promise<boolean> =>
  (await platform().db.query('select from subscriptions_to_set where project_id = $1', [projectId])).length > 0;

/** A caller that has waited too long requests it again, and so may the worker's own sweep: it is set once more then. */
const untilSet = (projectId: string) => until(async () => !(await toBeSet(projectId)));

test('a project’s database knows what its webhooks ask for once they are made, changed or deleted', async (t) => {
  const { ask, made, project, subscribed } = await scene();
  const first = await made({ events: ['table.users.INSERT', 'auth.*'] });
  const ofAuth = ['EVENT auth.login', 'EVENT auth.password_reset', 'EVENT auth.signup'];
  t.deepEqual(await subscribed(), [...ofAuth, 'INSERT users']);
  const second = await made({ events: ['table.users.*', 'db.delete'], active: false });
  t.deepEqual(await subscribed(), ['* users', 'DELETE *', ...ofAuth, 'INSERT users']);
  await ask('PUT', `/webhooks/${first}`, { events: ['auth.login'] });
  t.deepEqual(await subscribed(), ['* users', 'DELETE *', 'EVENT auth.login']);
  await ask('PUT', `/webhooks/${first}`, { events: ['*'] });
  t.deepEqual(await subscribed(), ['* *', ...userEventNames.map((name) => `EVENT ${name}`).toSorted()]);
  await ask('DELETE', `/webhooks/${first}`);
  await ask('DELETE', `/webhooks/${second}`);
  t.deepEqual(await subscribed(), []);
  await untilSet(project.id);
});

test('many webhooks made at the same moment are all told of', async (t) => {
  const { ask, project, subscribed } = await scene();
  const tables = Array.from({ length: 20 }, (_, n) => `t${n + 10}`);
  const answers = await Promise.all(
    tables.map((table) => ask('POST', '/webhooks', { url: receiverUrl, events: [`table.${table}.*`] })),
  );
  t.deepEqual(
    answers.filter(({ status }) => status !== 201).map(({ text }) => text),
    [],
  );
  await until(async () => !(await toBeSet(project.id)));
  t.deepEqual(await subscribed(), tables.map((table) => `* ${table}`).toSorted());
});

const rename = (from: string, to: string) =>
  asAdmin('postgres', async (client) => {
    await client.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${from}'`);
    await client.query(`alter database ${from} rename to ${to}`);
  });

test('while the project’s database is away the webhook is made all the same, and told of later', async (t) => {
  const { ask, project, subscribed } = await scene();
  const away = uniqueName('away');
  await rename(project.dbName, away);
  const { status, body } = await ask('POST', '/webhooks', { url: receiverUrl, events: ['db.insert'] });
  t.is(status, 201);
  t.true(await toBeSet(project.id));
  await t.throwsAsync(applySubscriptions(deps, project.id));
  t.true(await toBeSet(project.id));
  await rename(away, project.dbName);
  // The workers look for what has waited for some seconds.
  await platform().db.query(`update subscriptions_to_set set wanted_at = now() - interval '1 minute'`);
  await until(async () => !(await toBeSet(project.id)));
  t.deepEqual(await subscribed(), ['INSERT *']);
  await ask('DELETE', `/webhooks/${body.id}`);
});

test('what waits is looked at in turn, deleted projects and new wishes left out', async (t) => {
  const [old, fresh, deleted] = [await scene(), await scene(), await scene()];
  const { db } = platform();
  const { log } = memoryLog();
  const want = (projectId: string, seconds: number) =>
    db.query(
      `insert into subscriptions_to_set values ($1, clock_timestamp() - make_interval(secs => $2))
       on conflict (project_id) do update set wanted_at = excluded.wanted_at`,
      [projectId, seconds],
    );
  await db.transaction(
    (tx) => tx.query('update projects set deleted_at = now() where id = $1', [deleted.project.id]),
    systemActor,
  );
  await want(deleted.project.id, 60);
  await asAdmin(old.project.dbName, (client) => client.query(`insert into plinth.subscriptions values ('left', null)`));
  await want(old.project.id, 60);
  await want(fresh.project.id, -60);
  await applyWaiting({ ...deps, log });
  await until(async () => !(await toBeSet(old.project.id)));
  t.deepEqual(await old.subscribed(), []);
  t.true(await toBeSet(fresh.project.id));
  t.true(await toBeSet(deleted.project.id));
});

const changeEvents = (projectId: string, events: string) =>
  platform().db.transaction(
    (tx) => tx.query('update webhooks set events = $2 where project_id = $1', [projectId, events]),
    systemActor,
  );

/** While it works nothing can be written to the subscriptions of that database, and somebody waits for that. */
const whileHeld = <T>(dbName: string, begin: () => Promise<T>, work: (started: Promise<T>) => Promise<void>) =>
  asAdmin(dbName, async (client) => {
    await client.query('begin');
    await client.query('lock table plinth.subscriptions in access exclusive mode');
    const started = begin();
    await until(async () => {
      const { rows } = await client.query(`select from pg_locks where not granted and database = (
        select oid from pg_database where datname = current_database())`);
      return rows.length > 0;
    });
    await work(started);
    await client.query('commit');
    return started;
  });

test('a change that comes while somebody waits to set the subscriptions is set by them', async (t) => {
  const { made, project, subscribed } = await scene();
  await whileHeld(
    project.dbName,
    () => made({ events: ['table.a.*'] }),
    () => changeEvents(project.id, '{table.b.*}').then(() => undefined),
  );
  t.deepEqual(await subscribed(), ['* b']);
  await untilSet(project.id);
});

test('a change that comes while the subscriptions are set is not lost', async (t) => {
  const { made, project, subscribed } = await scene();
  await made({ events: ['table.a.*'] });
  await changeEvents(project.id, '{table.b.*}');
  const { db } = deps;
  const query: typeof db.query = async (sql, values, name) => {
    const rows = await db.query(sql, values, name);
    if (name === 'webhook-patterns') await changeEvents(project.id, '{table.c.*}');
    return rows as never;
  };
  await applySubscriptions({ ...deps, db: { ...db, query } }, project.id);
  t.deepEqual(await subscribed(), ['* b']);
  t.true(await toBeSet(project.id));
  await applySubscriptions(deps, project.id);
  t.deepEqual(await subscribed(), ['* c']);
  await untilSet(project.id);
});

test('databases that do not answer hold up no other project, and their own calls are told so', async (t) => {
  const [slow, quick] = [await scene(), await scene()];
  await whileHeld(
    slow.project.dbName,
    () =>
      Promise.all(
        ['a', 'b', 'c'].map((table) =>
          slow.ask('POST', '/webhooks', { url: receiverUrl, events: [`table.${table}.*`] }),
        ),
      ),
    async (started) => {
      const { status, headers } = await quick.ask('POST', '/webhooks', { url: receiverUrl, events: ['table.q.*'] });
      t.is(status, 201);
      t.is(headers.get('subscription-pending'), null);
      t.deepEqual(await quick.subscribed(), ['* q']);
      for (const answer of await started) {
        t.is(answer.status, 201);
        t.is(answer.headers.get('subscription-pending'), 'true');
      }
    },
  );
  await untilSet(slow.project.id);
  t.deepEqual(await slow.subscribed(), ['* a', '* b', '* c']);
});

test('a database is not asked when its webhooks ask for the same writes as before', async (t) => {
  const { made, project } = await scene();
  const first = await made({ events: ['table.a.*'] });
  await made({ events: ['table.a.*', 'auth.*'] });
  await untilSet(project.id);
  // Within the transaction nobody else has a hand in it.
  const isWantedBy = (sql: string, ...values: readonly unknown[]): Promise<boolean> =>
    platform().db.transaction(async (tx) => {
      await tx.query(sql, values);
      return (await tx.query('select from subscriptions_to_set where project_id = $1', [project.id])).length > 0;
    }, systemActor);
  t.false(await isWantedBy(`update webhooks set events = '{table.a.*,payments.*}' where id = $1`, first));
  t.false(await isWantedBy('delete from webhooks where id = $1', first));
  t.true(await isWantedBy(`update webhooks set events = '{table.b.*}' where project_id = $1`, project.id));
});

for (const [patterns, expected] of [
  [['payments.*', 'payments.stripe.*', 'functions.error'], []],
  [['storage.*'], ['EVENT storage.upload', 'EVENT storage.delete']],
  [['storage.delete'], ['EVENT storage.delete']],
  [
    ['auth.*', 'user.created'],
    ['EVENT auth.signup', 'EVENT auth.login', 'EVENT auth.password_reset', 'EVENT user.created'],
  ],
  [['users.*'], ['EVENT user.created', 'EVENT user.updated', 'EVENT user.deleted']],
  [['*'], ['* *', ...userEventNames.map((name) => `EVENT ${name}`)]],
  [
    ['db.insert', 'db.update'],
    ['INSERT *', 'UPDATE *'],
  ],
  [
    ['table.a.b.INSERT', 'table.a.b.*', 'table.x.*', 'table.x.*'],
    ['INSERT a.b', '* a.b', '* x'],
  ],
  [['table.a.*', 'db.*'], ['* *']],
  [['database.*'], ['* *']],
  [['table.*'], ['* *']],
  [Array.from({ length: 2001 }, (_, n) => `table.t${n}.*`), ['* *']],
] as const) {
  test(`${patterns.slice(0, 6).join(', ')} asks for ${expected.join(', ') || 'no writes'}`, (t) => {
    t.true(patterns.every((pattern) => faultOfPattern(pattern) === null));
    const wanted = tableSubscriptionsOf(patterns).map(({ table, op }) => `${op ?? '*'} ${table ?? '*'}`);
    t.deepEqual(wanted, [...expected]);
  });
}

const answersTo = async (event: string): Promise<readonly string[]> => {
  const [row] = await platform().db.query<{ patterns: string[] }>('select event_patterns($1) as patterns', [event]);
  return row?.patterns ?? [];
};

test('every name and group that can be subscribed to is one that an event answers to', async (t) => {
  for (const [event, ...names] of [
    ['table.a.b.INSERT', '*', 'db.insert', 'db.*', 'database.*', 'table.*', 'table.a.b.*', 'table.a.b.INSERT'],
    ['user.created', '*', 'user.created', 'user.*', 'users.*'],
    ['auth.login', '*', 'auth.login', 'auth.*'],
    ['payments.stripe.invoice.paid', '*', 'payments.*', 'payments.stripe.*', 'payments.stripe.invoice.*'],
  ] as const) {
    const patterns = await answersTo(event);
    for (const name of names) {
      t.true(patterns.includes(name), `${event}: ${name}`);
      t.is(faultOfPattern(name), null, name);
    }
  }
  t.false((await answersTo('auth.login')).includes('users.*'));
});
