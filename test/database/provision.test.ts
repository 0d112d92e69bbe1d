import test from 'ava';
import type { Client, Pool, PoolClient } from 'pg';
import { type ProvisionDeps, provisionDatabase } from '#domain/database-servers/provision.ts';
import { type DatabaseServers, createDatabaseServers } from '#domain/database-servers/database-servers.ts';
import { type Project, findProject } from '#domain/projects/store.ts';
import { openPlatform } from '#domain/platform.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { openPlatformSealer } from '#lib/platform-sealer.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { longTestMs } from '#test/support/time-outs.ts';

// Without a worker projects stay as they were accepted: the tests provision them.
const platform = usePlatform(test, { worker: false });

const openServers = async (): Promise<DatabaseServers> => {
  const { db, config } = platform();
  const sealer = await openPlatformSealer(db, openKeyRing(config.PLINTH_SECRET_KEYS));
  return createDatabaseServers({ db, sealer, controlUrl: config.DATABASE_URL, log: memoryLog().log });
};

const acceptedProject = async (): Promise<Project> => {
  const { client, db } = platform();
  const user = await client.signUp();
  const headers = { prefer: 'respond-async' };
  const answer = await client.call('POST', '/projects', { token: user.token, body: { name: 'P' }, headers });
  const id = answer.headers.get('location')?.split('/')[2] ?? '';
  const project = await findProject(db, id);
  if (project === undefined) throw new Error(`no project: ${answer.text}`);
  return project;
};

const depsWith = (project: Project, servers: DatabaseServers): ProvisionDeps => {
  const { db, config } = platform();
  return { db, servers, sealer: openKeyRing(config.PLINTH_SECRET_KEYS).sealerFor(project.id, project.data_key) };
};

interface Faulty {
  readonly servers: DatabaseServers;
  /** How many statements went by. */
  readonly seen: () => number;
}

class Crash extends Error {}

/** Servers whose nth statement fails: `before` it reaches the server, or `after` it took effect. */
const faultyServers = (real: DatabaseServers, nth: number, when: 'before' | 'after'): Faulty => {
  let seen = 0;
  const guard = <T extends Client | PoolClient>(client: T): T =>
    new Proxy(client, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property);
        if (property !== 'query') return typeof value === 'function' ? value.bind(target) : value;
        return async (...args: [string, unknown[]?]) => {
          seen += 1;
          const crashes = seen === nth;
          if (crashes && when === 'before') throw new Crash(args[0]);
          const answer = await target.query(...args);
          if (crashes) throw new Crash(args[0]);
          return answer;
        };
      },
    });
  const guardPool = (pool: Pool): Pool =>
    new Proxy(pool, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property);
        if (property === 'connect') return async () => guard(await target.connect());
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  return {
    servers: {
      ...real,
      admin: async (id) => guardPool(await real.admin(id)),
      connectTo: async (id, database) => guard(await real.connectTo(id, database)),
    },
    seen: () => seen,
  };
};

/** The server's objects of a project: its databases, roles, their rights, and the content of the database. */
const stateOf = async ({ ref, db_name }: Project): Promise<unknown> => {
  const onServer = await asAdmin('postgres', async (admin) => {
    const databases = await admin.query(
      `select datname, datacl::text[] as acl, datconnlimit, shobj_description(oid, 'pg_database') as marker
       from pg_database where datname = $1 or datname like '%' || $2 || '%'`,
      [db_name, ref],
    );
    const roles = await admin.query(
      `select rolname, rolcanlogin, rolinherit, rolbypassrls, rolsuper, rolcreatedb, rolcreaterole, rolconnlimit,
         (select array_agg(g.rolname order by g.rolname) from pg_auth_members m join pg_roles g on g.oid = m.roleid
          where m.member = r.oid) as member_of
       from pg_roles r where rolname like $1 || '%' order by rolname`,
      [ref],
    );
    return { databases: databases.rows, roles: roles.rows };
  });
  const inside = await asAdmin(db_name, async (db) => ({
    migrations: (await db.query('select version from plinth.migrations order by version')).rows,
    schemas: (
      await db.query(`select nspname, nspacl::text[] as acl from pg_namespace where nspname !~ '^pg_' order by 1`)
    ).rows,
    defaults: (
      await db.query(
        `select defaclobjtype, defaclacl::text[] as acl from pg_default_acl order by 1, defaclrole::regrole::text ~ '_owner$'`,
      )
    ).rows,
  }));
  return JSON.parse(
    JSON.stringify({ ...onServer, ...inside })
      .replaceAll(ref, 'REF')
      .replaceAll(db_name, 'DB'),
    // The server keeps rights in the order of the roles' numbers, which a second try may get in another one.
    (name, value: unknown) => (name === 'acl' && Array.isArray(value) ? value.map(String).toSorted() : value),
  );
};

const withoutMarker = (state: unknown, { id }: Project): string => JSON.stringify(state).replaceAll(id, 'ID');

test.serial('a creation that breaks off at any statement is completed by the next try', async (t) => {
  t.timeout(longTestMs);
  const real = await openServers();
  const [whole, counted] = [await acceptedProject(), await acceptedProject()];
  await provisionDatabase(depsWith(whole, real), whole);
  const expected = withoutMarker(await stateOf(whole), whole);
  const counting = faultyServers(real, 0, 'before');
  await provisionDatabase(depsWith(counted, counting.servers), counted);
  // The template is looked for once per process and server.
  const statements = counting.seen();
  t.true(statements > 8, `${statements} statements`);
  for (const when of ['before', 'after'] as const) {
    for (let nth = 1; nth <= statements; nth += 1) {
      const project = await acceptedProject();
      const faulty = faultyServers(real, nth, when);
      await t.throwsAsync(provisionDatabase(depsWith(project, faulty.servers), project), { instanceOf: Crash });
      await provisionDatabase(depsWith(project, real), project);
      t.is(withoutMarker(await stateOf(project), project), expected, `${when} statement ${nth}`);
      for (const role of tenantRoles) {
        const login = await tenantLogin(platform(), project.id, role);
        await asTenant(login, (client) => client.query('select 1'));
      }
    }
  }
  await real.close();
});

test.serial('a creation that is repeated changes nothing', async (t) => {
  const servers = await openServers();
  const project = await acceptedProject();
  await provisionDatabase(depsWith(project, servers), project);
  const login = await tenantLogin(platform(), project.id, 'owner');
  await asTenant(login, (client) => client.query('create table kept (x int)'));
  const before = await stateOf(project);
  await Promise.all([1, 2, 3].map(() => provisionDatabase(depsWith(project, servers), project)));
  t.deepEqual(await stateOf(project), before);
  await asTenant(login, (client) => client.query('select * from kept'));
  await servers.close();
});

test.serial('20 creations at once all succeed', async (t) => {
  const servers = await openServers();
  const projects = await Promise.all(Array.from({ length: 20 }, acceptedProject));
  await Promise.all(projects.map((project) => provisionDatabase(depsWith(project, servers), project)));
  const states = await Promise.all(projects.map(async (project) => withoutMarker(await stateOf(project), project)));
  t.is(new Set(states).size, 1);
  await servers.close();
});

test.serial('a project that was deleted while its database was made has none afterwards', async (t) => {
  const { client, db, config } = platform();
  const user = await client.signUp();
  const headers = { prefer: 'respond-async' };
  const answer = await client.call('POST', '/projects', { token: user.token, body: { name: 'Gone' }, headers });
  const id = answer.headers.get('location')?.split('/')[2] ?? '';
  const { projects, close } = await openPlatform(config, memoryLog().log);
  const project = await findProject(db, id);
  if (project === undefined) throw new Error('no project');
  const servers = await openServers();
  // Deleted in the middle: the worker has read the row before.
  await client.call('DELETE', `/projects/${id}`, { token: user.token });
  await provisionDatabase(depsWith(project, servers), project);
  await projects.retireLeftOvers();
  await projects.retire(id);
  await projects.purge(0);
  const left = await asAdmin('postgres', async (admin) => [
    ...(
      await admin.query('select datname from pg_database where datname = $1 or datname like $2', [
        project.db_name,
        `%${project.ref}%`,
      ])
    ).rows,
    ...(await admin.query('select rolname from pg_roles where rolname like $1', [`${project.ref}%`])).rows,
  ]);
  t.deepEqual(left, []);
  await servers.close();
  await close();
});

test.serial('a database that belongs to no project is never taken', async (t) => {
  const servers = await openServers();
  const project = await acceptedProject();
  await asAdmin('postgres', (admin) => admin.query(`create database "${project.db_name}"`));
  await asAdmin(project.db_name, (db) => db.query('create table precious (x int)'));
  await t.throwsAsync(provisionDatabase(depsWith(project, servers), project), { message: /belongs to no project/ });
  await asAdmin(project.db_name, (db) => db.query('select * from precious'));
  t.pass();
  await servers.close();
});
