import test, { type ExecutionContext } from 'ava';
import { Client } from 'pg';
import type { TenantLogin } from '#lib/tenant-connections.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import type { Answer, TestProject } from '#test/support/client.ts';
import { type TestPlatform, startPlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';
import { type TestServer, startServer } from '../backup/servers.ts';
import { type Neighbour, openNeighbour } from './neighbour.ts';

const maxConnections = 60;
const tooMany = '53300';

// A server of its own: the one that all tests share has not so many connections to spare.
let server: TestServer;
let platform: TestPlatform;
let attacker: TestProject;
let neighbour: Neighbour;

test.before('a platform on a server of its own', async () => {
  const started = await startServer(Infinity, 'its-password');
  if (started === null) throw new Error('there is no PostgreSQL');
  server = started;
  process.env['DATABASE_URL'] = server.url('postgres');
  platform = await startPlatform();
  const { client } = platform;
  attacker = await client.createProject(await client.signUp());
  neighbour = await openNeighbour(platform);
});

test.after.always(async () => {
  try {
    await platform?.stop();
  } finally {
    await server?.stop();
  }
});

/** Connects until it is refused, some at a time, and keeps them. */
const flood = async (logins: readonly TenantLogin[], sessions: Client[]): Promise<(string | null)[]> => {
  const states: (string | null)[] = [];
  for (let inProgress = 0; inProgress < maxConnections + 20; inProgress += 10) {
    const attempts = Array.from({ length: 10 }, async (_, nth) => {
      const session = new Client({ ...logins[(inProgress + nth) % logins.length] });
      session.on('error', () => undefined);
      const state = await sqlStateOf(session.connect());
      if (state === null) sessions.push(session);
      return state;
    });
    states.push(...(await Promise.all(attempts)));
  }
  return states;
};

const isBounded = async (t: ExecutionContext, kinds: readonly (typeof tenantRoles)[number][]): Promise<void> => {
  const logins = await Promise.all(kinds.map((kind) => tenantLogin(platform, attacker.id, kind)));
  const sessions: Client[] = [];
  const attack = async () => {
    const flooding = await flood(logins, sessions);
    // Every session holds a transaction open.
    await Promise.all(sessions.map((session) => session.query('begin; select 1')));
    return [...flooding, ...(await flood(logins, sessions))];
  };
  try {
    const states = await neighbour.unharmed(t, attack);
    t.true(sessions.length <= maxConnections, `${sessions.length}`);
    t.true(sessions.length > maxConnections / 2, `${sessions.length}`);
    t.deepEqual([...new Set(states.filter((state) => state !== null))], [tooMany]);
  } finally {
    await Promise.all(sessions.map((session) => session.end().catch(() => undefined)));
  }
};

for (const kind of tenantRoles)
  test.serial(`a flood of connections as ${kind} ends at 60, and a neighbour is served meanwhile`, (t) =>
    isBounded(t, [kind]),
  );

test.serial('a flood as all of its roles at once ends at 60, too', (t) => isBounded(t, tenantRoles));

test.serial('connections that are never used, and sessions that end badly, take nothing away for good', async (t) => {
  const login = await tenantLogin(platform, attacker.id, 'owner');
  await neighbour.unharmed(t, async () => {
    for (let round = 0; round < 5; round += 1) {
      const sessions = Array.from({ length: 20 }, () => new Client({ ...login }));
      await Promise.all(
        sessions.map(async (session) => {
          session.on('error', () => undefined);
          await session.connect().catch(() => undefined);
          await session.query('select pg_terminate_backend(pg_backend_pid())').catch(() => undefined);
          await session.end().catch(() => undefined);
        }),
      );
    }
  });
  t.deepEqual(await asTenant(login, async (session) => (await session.query('select 1 as one')).rows), [{ one: 1 }]);
});

test.serial(
  'a flood of slow requests over the API is answered or refused, and a neighbour is served meanwhile',
  async (t) => {
    const { call } = platform.client;
    const owner = await tenantLogin(platform, attacker.id, 'owner');
    await asTenant(owner, (session) =>
      session.query(`create function slow() returns int language plpgsql as $$ begin perform pg_sleep(2); return 1; end $$;
      grant execute on function slow() to anon`),
    );
    const { key, publishableKey } = attacker;
    const ways: (() => Promise<Answer>)[] = [
      () => call('POST', '/v1/rest/rpc/slow', { key }),
      () => call('POST', '/v1/rest/rpc/slow', { key: publishableKey }),
      () => call('POST', '/rest/v1/rpc/$batch', { key, body: [{ method: 'POST', path: 'rpc/slow' }] }),
    ];
    const answers = await neighbour.unharmed(t, () =>
      Promise.all(Array.from({ length: 90 }, (_, nth) => ways[nth % ways.length]?.() ?? Promise.reject(new Error()))),
    );
    // In order: sets are compared by theirs, and who is answered first is chance.
    t.deepEqual(
      [...new Set(answers.map(({ status }) => status))].toSorted((a, b) => a - b),
      [200, 503],
    );
    for (const { status, body } of answers) if (status === 503) t.is(body.code, 'dependency_unavailable');
  },
);

test.serial('who knows the server’s address and no password gets nowhere', async (t) => {
  const login = await tenantLogin(platform, attacker.id, 'owner');
  await neighbour.unharmed(t, async () => {
    for (const wrong of [
      { ...login, password: 'guessed' },
      { ...login, password: '' },
      { ...login, user: `${neighbour.ref}_owner` },
      { ...login, user: `${neighbour.ref}_owner`, database: neighbour.dbName },
      { ...login, user: 'anon' },
      { ...login, user: 'plinth_events' },
    ])
      t.not(await sqlStateOf(asTenant(wrong, (session) => session.query('select 1'))), null);
    t.is(await sqlStateOf(asTenant({ ...login, database: neighbour.dbName }, () => Promise.resolve())), '42501');
  });
});
