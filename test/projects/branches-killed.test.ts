import test, { type ExecutionContext } from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin, hold } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { worker: false });

const startWorker = async (t: ExecutionContext) => {
  const worker = startProcess('workers/server.ts', environmentOf(platform().config));
  const kill = async (): Promise<void> => {
    worker.child.kill('SIGKILL');
    await worker.end;
  };
  t.teardown(kill);
  await worker.ready;
  return { kill };
};

const stuck = `from pg_stat_activity where datname = $1 and wait_event_type = 'Lock' and query like $2`;

/** Whether a session in that database waits for a lock with such a statement. */
const isStuck = (database: string, statement: string): Promise<boolean> =>
  asAdmin('postgres', async (client) => (await client.query(`select ${stuck}`, [database, statement])).rows.length > 0);

/** A server goes on with a statement whose client has died: here it does not come to that. */
const endStuck = (database: string, statement: string): Promise<unknown> =>
  asAdmin('postgres', (client) => client.query(`select pg_terminate_backend(pid) ${stuck}`, [database, statement]));

const call = (user: TestUser, method: string, path: string, body?: unknown) =>
  platform().client.call(method, path, { token: user.token, body, headers: { prefer: 'wait=60' } });

const schema = `
  create table guests (id int primary key, name text);
  create table rooms (id int primary key, guest int references guests);
  create index on guests (name);
  insert into guests select i, 'guest ' || i from generate_series(1, 1500) i;
  insert into rooms select i, i from generate_series(1, 1500) i`;

const newParent = async (user: TestUser): Promise<TestProject> => {
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const made = await call(user, 'POST', `/projects/${project.id}/db/script`, { sql: schema });
  if (made.status !== 200) throw new Error(made.text);
  const migrations = [{ name: '1_more', sql: 'create table more (id int)' }];
  await call(user, 'POST', `/projects/${project.id}/db/migrations`, { migrations });
  return project;
};

interface Row {
  readonly id: string;
  readonly status: string;
  readonly db_name: string;
}

const branchRow = (slug: string): Promise<Row> =>
  until(
    async () => (await platform().db.query<Row>('select id, status, db_name from projects where slug = $1', [slug]))[0],
  );

const isRunning = async ({ id }: Row): Promise<boolean> => {
  const sql = `select from jobs where project_id = $1 and type = 'project.provision' and status = 'running'`;
  return (await platform().db.query(sql, [id])).length > 0;
};

const contents = async (user: TestUser, id: string) => {
  const sql = `select (select count(*)::int from guests) as guests, (select sum(guest)::int from rooms) as rooms,
    (select json_agg(name)::text from plinth_migrations.applied) as applied`;
  const [schemaOf, rows] = [
    await call(user, 'GET', `/projects/${id}/db/schema.sql`),
    await call(user, 'POST', `/projects/${id}/db/query`, { sql }),
  ];
  return [schemaOf.text, rows.body.rows];
};

const slugOf = (parent: TestProject, name: string): string => `${parent.slug.slice(0, 15)}_${name}`;

test('a worker that is killed before, amidst and after the copy leaves a branch that becomes whole', async (t) => {
  t.timeout(longTestMs);
  const { db } = platform();
  const worker = await startWorker(t);
  const user = await platform().client.signUp();
  const [before, amidst, after] = [await newParent(user), await newParent(user), await newParent(user)];
  const slugs = { before: 'named', amidst: 'copied', after: 'filled' };
  const make = (parent: TestProject, name: string) =>
    call(user, 'POST', `/projects/${parent.id}/branches`, { name, with_rows: true });

  // The names of two databases are taken, and a table of the second one's parent is locked.
  const holdName = (parent: TestProject, name: string) => {
    const database = `plinth_${parent.orgId}_${slugOf(parent, name)}`;
    return hold('postgres', `select pg_advisory_xact_lock(hashtextextended('${database}', 0))`);
  };
  const release = [
    await holdName(before, slugs.before),
    await hold(amidst.dbName, 'lock table public.rooms in access exclusive mode'),
  ];
  const letGo = await holdName(after, slugs.after);
  const made = [make(before, slugs.before), make(amidst, slugs.amidst), make(after, slugs.after)];
  // The third one is filled, and cannot become active.
  const [{ control } = { control: '' }] = await db.query<{ control: string }>('select current_database() as control');
  const [first, third] = [await branchRow(slugOf(before, slugs.before)), await branchRow(slugOf(after, slugs.after))];
  release.push(await hold(control, `select from projects where id = '${third.id}' for no key update`));
  await letGo();
  await until(() => isRunning(first));
  await until(() => isStuck(amidst.dbName, '%public.rooms%'));
  await until(() => isStuck(control, '%update projects%'));
  await worker.kill();
  await endStuck(control, '%update projects%');
  for (const slug of [slugOf(before, slugs.before), slugOf(amidst, slugs.amidst), slugOf(after, slugs.after)]) {
    const { id, status } = await branchRow(slug);
    t.is(status, 'creating');
    t.is((await call(user, 'GET', `/projects/${id}/rest/v1/guests`)).status, 409, 'it cannot be used');
  }
  for (const one of release) await one();

  await startWorker(t);
  for (const [i, parent] of [before, amidst, after].entries()) {
    const answer = await made[i];
    t.is(answer?.status, 201, answer?.text);
    t.is(answer?.body.status, 'active');
    t.deepEqual(await contents(user, answer?.body.id), await contents(user, parent.id));
    t.is((await call(user, 'DELETE', `/projects/${parent.id}/branches/${answer?.body.id}`)).status, 204);
    const again = await make(parent, Object.values(slugs)[i] ?? '');
    t.is(again.status, 201, 'its name can be used again');
    t.deepEqual(await contents(user, again.body.id), await contents(user, parent.id));
  }
});

test('an API that is killed while a branch is made leaves a whole one, which is deleted by its name and made anew', async (t) => {
  t.timeout(longTestMs);
  await startWorker(t);
  const user = await platform().client.signUp();
  const parent = await newParent(user);
  const api = startProcess('api/server.ts', { ...environmentOf(platform().config), PORT: '0' });
  const { port } = await api.ready;
  const release = await hold(parent.dbName, 'lock table public.rooms in access exclusive mode');
  const cut = fetch(`http://127.0.0.1:${port}/projects/${parent.id}/branches`, {
    method: 'POST',
    headers: { authorization: `Bearer ${user.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'cut off', with_rows: true }),
  }).then(
    () => 'answered',
    () => 'cut off',
  );
  await until(() => isStuck(parent.dbName, '%public.rooms%'));
  api.child.kill('SIGKILL');
  await api.end;
  t.is(await cut, 'cut off');
  await release();
  const listed = () => call(user, 'GET', `/projects/${parent.id}/branches`);
  const made = await until(async () => {
    const [branch] = (await listed()).body.branches;
    return branch.status === 'active' && branch;
  });
  t.deepEqual(await contents(user, made.id), await contents(user, parent.id));
  const body = { name: 'cut off', with_rows: true };
  t.is((await call(user, 'POST', `/projects/${parent.id}/branches`, body)).status, 409);
  t.is((await call(user, 'DELETE', `/projects/${parent.id}/branches/${made.id}`)).status, 204);
  t.deepEqual((await listed()).body.branches, []);
  const again = await call(user, 'POST', `/projects/${parent.id}/branches`, body);
  t.is(again.status, 201);
  t.deepEqual(await contents(user, again.body.id), await contents(user, parent.id));
});
