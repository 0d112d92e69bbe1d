import test from 'ava';
import type { ClientBase } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import type { TenantLogin } from '#lib/tenant-connections.ts';
import { type TenantDb, createTenantDb } from '#lib/tenant-db.ts';
import { type TestDatabase, asAdmin, createEmptyDatabase } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { patienceMs } from '#test/support/time-outs.ts';

let databases: TestDatabase[] = [];

test.before('30 databases', async () => {
  databases = await Promise.all(Array.from({ length: 30 }, createEmptyDatabase));
});
test.after.always(async () => {
  await Promise.all(databases.map((database) => database.drop()));
});

const loginTo = ({ url }: TestDatabase, name: string): TenantLogin => {
  const { hostname, port, pathname, username, password } = new URL(url);
  // The user of the server's own name, which is how the server is asked about these connections.
  return {
    host: hostname,
    port: Number(port),
    database: pathname.slice(1),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    ...({ application_name: name } satisfies Record<string, string>),
  };
};

let names = 0;

interface Scene {
  readonly tenantDb: TenantDb;
  /** How many connections the server has of this scene. */
  readonly onServer: () => Promise<number>;
}

const open = (
  budget: number,
  { login, waitMs }: { readonly login?: (projectId: string) => Promise<TenantLogin>; readonly waitMs?: number } = {},
): Scene => {
  names += 1;
  const name = `tenant-test-${process.pid}-${names}`;
  const toDatabase = (projectId: string): Promise<TenantLogin> => {
    const database = databases[Number(projectId)];
    return database ? Promise.resolve(loginTo(database, name)) : Promise.reject(new Error('no such project'));
  };
  return {
    tenantDb: createTenantDb({
      budget,
      login: login ?? toDatabase,
      log: memoryLog().log,
      ...(waitMs !== undefined && { waitMs }),
    }),
    onServer: () =>
      asAdmin('postgres', async (admin) => {
        const { rows } = await admin.query<{ n: number }>(
          'select count(*)::int as n from pg_stat_activity where application_name = $1',
          [name],
        );
        return rows[0]?.n ?? 0;
      }),
  };
};

const pid = async (client: ClientBase): Promise<number> =>
  (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid ?? 0;

const held = (tenantDb: TenantDb, project: string) => {
  const taken = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const done = tenantDb.use(project, 'owner', async () => {
    taken.resolve();
    await gate.promise;
  });
  return { taken: taken.promise, release: () => gate.resolve(), done };
};

test('200 uses at once over 30 databases stay within a budget of 10, on the server too', async (t) => {
  const { tenantDb, onServer } = open(10, { waitMs: patienceMs });
  let max = 0;
  let working = true;
  const watch = (async () => {
    while (working) max = Math.max(max, await onServer());
  })();
  const counts: number[] = [];
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, i) =>
      tenantDb.use(String(i % 30), i % 2 === 0 ? 'owner' : 'api', async (client) => {
        const { rows } = await client.query<{ name: string }>('select current_database() as name');
        counts.push(tenantDb.open());
        return rows[0]?.name;
      }),
    ),
  );
  working = false;
  await watch;
  const expected = Array.from({ length: 200 }, (_, i) => new URL(databases[i % 30]?.url ?? '').pathname.slice(1));
  t.deepEqual(answers, expected);
  t.true(Math.max(...counts) <= 10, `counted ${Math.max(...counts)}`);
  t.true(max <= 10 && max > 0, `the server counted ${max}`);
  await tenantDb.close();
  t.is(tenantDb.open(), 0);
  t.is(await onServer(), 0);
});

test('a warm connection is used again', async (t) => {
  const { tenantDb } = open(5);
  const first = await tenantDb.use('0', 'owner', pid);
  t.is(await tenantDb.use('0', 'owner', pid), first);
  t.not(await tenantDb.use('0', 'reader', pid), first);
  await tenantDb.close();
});

test('who gets no connection in time is told to come back', async (t) => {
  const { tenantDb } = open(1);
  const busy = held(tenantDb, '0');
  await busy.taken;
  const error = await t.throwsAsync(tenantDb.use('1', 'owner', pid), { instanceOf: ServiceError });
  t.like(error, { code: 'dependency_unavailable', status: 503, headers: { 'Retry-After': '1' } });
  busy.release();
  await busy.done;
  // And comes back.
  t.true((await tenantDb.use('1', 'owner', pid)) > 0);
  await tenantDb.close();
});

test('a project that has all it may have does not keep others waiting', async (t) => {
  const { tenantDb } = open(8);
  const holders = Array.from({ length: 4 }, () => held(tenantDb, '0'));
  await Promise.all(holders.map(({ taken }) => taken));
  const callers = Array.from({ length: 50 }, () => tenantDb.use('0', 'owner', pid));
  t.true((await tenantDb.use('1', 'owner', pid)) > 0);
  for (const { release } of holders) release();
  await Promise.all(holders.map(({ done }) => done));
  t.is((await Promise.all(callers)).length, 50);
  await tenantDb.close();
});

test('an idle connection makes room for another project', async (t) => {
  const { tenantDb, onServer } = open(2);
  for (let i = 0; i < 6; i += 1) t.true((await tenantDb.use(String(i), 'owner', pid)) > 0);
  t.true((await onServer()) <= 2);
  await tenantDb.close();
});

test('room is made by the project that was used least of late, not by the one that waits longest', async (t) => {
  const { tenantDb } = open(3);
  const warm = await tenantDb.use('0', 'owner', pid);
  for (let i = 0; i < 20; i += 1) await tenantDb.use('0', 'owner', pid);
  for (let i = 1; i < 8; i += 1) await tenantDb.use(String(i), 'owner', pid);
  t.is(await tenantDb.use('0', 'owner', pid), warm);
  await tenantDb.close();
});

test('where connections are scarce, a project waits for its own rather than taking another’s', async (t) => {
  const { tenantDb } = open(2);
  const [own, other] = [await tenantDb.use('0', 'owner', pid), await tenantDb.use('1', 'owner', pid)];
  const busy = held(tenantDb, '0');
  await busy.taken;
  const waiting = tenantDb.use('0', 'owner', pid);
  busy.release();
  await busy.done;
  t.is(await waiting, own);
  t.is(await tenantDb.use('1', 'owner', pid), other);
  await tenantDb.close();
});

test('a connection that does not come back soon is not waited for', async (t) => {
  const { tenantDb } = open(2);
  const own = await tenantDb.use('0', 'owner', pid);
  await tenantDb.use('1', 'owner', pid);
  const busy = held(tenantDb, '0');
  await busy.taken;
  const second = await tenantDb.use('0', 'owner', pid);
  t.true(second > 0 && second !== own);
  busy.release();
  await busy.done;
  await tenantDb.close();
});

test('the last quarter of the budget is for projects that use none of it', async (t) => {
  const { tenantDb } = open(8);
  const hogs = ['0', '0', '0', '0', '1', '1', '1', '1'].map((project) => held(tenantDb, project));
  await Promise.all(hogs.slice(0, 6).map(({ taken }) => taken));
  t.true((await tenantDb.use('2', 'owner', pid)) > 0);
  t.true((await tenantDb.use('3', 'owner', pid)) > 0);
  for (const { release } of hogs) release();
  await Promise.all(hogs.map(({ done }) => done));
  await tenantDb.close();
});

test('a connection that was cut is not lent again', async (t) => {
  const { tenantDb } = open(1);
  const cut = sqlStateOf(
    tenantDb.use('0', 'owner', async (client) => {
      const victim = await pid(client);
      await asAdmin('postgres', (admin) => admin.query('select pg_terminate_backend($1)', [victim]));
      await client.query('select 1');
    }),
  );
  t.not(await cut, null);
  t.true((await tenantDb.use('0', 'owner', pid)) > 0);
  await tenantDb.close();
});

test('an idle connection that breaks leaves the budget whole', async (t) => {
  const { tenantDb } = open(1);
  const victim = await tenantDb.use('0', 'owner', pid);
  await asAdmin('postgres', (admin) => admin.query('select pg_terminate_backend($1, 5000)', [victim]));
  while (tenantDb.open() > 0) await new Promise(setImmediate);
  t.not(await tenantDb.use('0', 'owner', pid), victim);
  await tenantDb.close();
});

test('a transaction that was left open is not handed on', async (t) => {
  const { tenantDb } = open(1);
  const first = await tenantDb.use('0', 'owner', async (client) => {
    await client.query('begin; create temp table t (x int)');
    return pid(client);
  });
  const state = await sqlStateOf(
    tenantDb.use('0', 'owner', async (client) => {
      await client.query('begin');
      await client.query('select nonsense');
    }),
  );
  t.is(state, '42703');
  const last = await tenantDb.use('0', 'owner', async (client) => {
    await client.query('select 1');
    return pid(client);
  });
  t.not(last, first);
  await tenantDb.close();
});

test('a refused statement costs no connection', async (t) => {
  const { tenantDb } = open(1);
  const first = await tenantDb.use('0', 'owner', pid);
  t.is(await sqlStateOf(tenantDb.use('0', 'owner', (client) => client.query('select nonsense'))), '42703');
  t.is(await tenantDb.use('0', 'owner', pid), first);
  await tenantDb.close();
});

test('connections that cannot be made leave the budget whole', async (t) => {
  let refuse = true;
  const { tenantDb } = open(2, {
    login: (projectId) => {
      if (projectId === 'unknown') return Promise.reject(new ServiceError('not_found', 'No such project.'));
      const login = loginTo(databases[0] as TestDatabase, 'x');
      return Promise.resolve(refuse ? { ...login, password: 'wrong' } : login);
    },
  });
  for (let i = 0; i < 5; i += 1) {
    await t.throwsAsync(tenantDb.use('unknown', 'owner', pid), { message: 'No such project.' });
    t.is(await sqlStateOf(tenantDb.use('0', 'owner', pid)), '28P01');
  }
  refuse = false;
  t.true((await tenantDb.use('0', 'owner', pid)) > 0);
  await tenantDb.close();
});

test('what was released is not lent again, even when it comes back later', async (t) => {
  const { tenantDb } = open(4);
  const idle = await tenantDb.use('0', 'owner', pid);
  const used = await tenantDb.use('0', 'service', async (client) => {
    await tenantDb.release('0');
    return pid(client);
  });
  t.not(await tenantDb.use('0', 'owner', pid), idle);
  t.not(await tenantDb.use('0', 'service', pid), used);
  await tenantDb.close();
});

test('strings are read as the standard says, whatever the database’s default is', async (t) => {
  const { tenantDb } = open(1);
  const { rows } = await tenantDb.use('0', 'owner', (client) => client.query('show standard_conforming_strings'));
  t.is(rows[0].standard_conforming_strings, 'on');
  await tenantDb.close();
});
