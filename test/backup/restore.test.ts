import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import { Client as Connection } from 'pg';
import { startApi } from '#api/api.ts';
import { openPlatform } from '#domain/platform.ts';
import type { Config } from '#lib/config.ts';
import { openControlDb } from '#lib/control-db.ts';
import { blocksOf, readDocument, sectionOf } from '#test/readme/markdown.ts';
import { type Client, type TestProject, type TestUser, createClient } from '#test/support/client.ts';
import { type TestPlatform, memoryLog, startPlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { startWorker } from '#workers/worker.ts';
import { type TestServer, dumpMajor, serverUser, startServer } from './servers.ts';

const page = readDocument('docs/operations/backup.md');
const blockOf = (heading: string, language: string, index = 0): string => {
  const block = blocksOf(sectionOf(page, heading)).filter((each) => each.language === language)[index];
  if (block === undefined) throw new Error(`no ${language} below "${heading}"`);
  return block.text;
};

const run = (program: string, args: readonly string[], env: NodeJS.ProcessEnv, input = ''): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = execFile(program, args, { env: { ...process.env, ...env } }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${program}: ${stderr}`));
      else resolve(stdout);
    });
    child.stdin?.end(input);
  });

/** The settings that the page names before its commands. */
const placeOf = ({ host, port, password }: TestServer): Record<string, string> => ({
  PGHOST: host,
  PGPORT: String(port),
  PGUSER: serverUser,
  PGPASSWORD: password,
});

const sqlOn = (server: TestServer, name: string, sql: string, variables: Readonly<Record<string, string>>) => {
  const given = Object.entries(variables).flatMap(([variable, value]) => ['-v', `${variable}=${value}`]);
  return run('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', name, ...given], placeOf(server), `${sql}\n`);
};

/** A platform with something of everything in it, dumped while jobs wait and run. */
interface Before {
  readonly user: TestUser;
  readonly project: TestProject;
  readonly gone: TestProject;
  readonly late: TestProject;
  readonly greet: string;
  readonly waiting: string;
  readonly running: string;
  readonly config: Config;
  readonly control: string;
}

/** The restored platform. */
interface After {
  readonly client: Client;
  readonly platform: Pick<TestPlatform, 'db' | 'config'>;
  readonly stop: () => Promise<void>;
}

const major = dumpMajor();
const folder = mkdtempSync(path.join(tmpdir(), 'plinth-dumps-'));
const stops: (() => Promise<unknown>)[] = [];
let fresh: TestServer;
let before: Before;
let after: After;

const accept = async (client: Client, { user, project }: { user: TestUser; project: TestProject }, id: string) => {
  const answer = await client.call('POST', `/projects/${project.id}/functions/${id}/invoke`, {
    token: user.token,
    body: { payload: 'later' },
    headers: { prefer: 'respond-async' },
  });
  return String(answer.body.job_id);
};

const fill = async (platform: TestPlatform, stopWorker: () => Promise<void>, dump: () => Promise<unknown>) => {
  const { client, db, config } = platform;
  const user = await client.signUp();
  const [project, gone] = [await client.createProject(user), await client.createProject(user)];
  await asTenant(await tenantLogin(platform, project.id, 'owner'), (session) =>
    session.query(`create table notes (id bigint generated always as identity primary key, text text not null);
      alter table notes enable row level security;
      create policy everybody on notes for select to anon using (text <> 'hidden');
      grant select on notes to anon;
      insert into notes (text) values ('kept'), ('hidden'), ('Ünïcode')`),
  );
  const greet = await client.deploy(user, project, 'exports.handler = (p) => `${process.env.WORD} ${p}`', {
    env_vars: { WORD: 'hello' },
  });
  const endless = await client.deploy(user, project, 'exports.handler = () => new Promise(() => {})', {
    timeout_ms: 300_000,
  });
  await client.call('DELETE', `/projects/${gone.id}`, { token: user.token });
  const running = await accept(client, { user, project }, endless.id);
  await until(async () => {
    const [row] = await db.query<{ status: string }>('select status from jobs where id = $1', [running]);
    return row?.status === 'running';
  });
  // The only slot is taken: this one waits.
  const waiting = await accept(client, { user, project }, greet.id);
  await dump();
  const late = await client.createProject(user);
  await stopWorker();
  const control = new URL(config.DATABASE_URL).pathname.slice(1);
  return { user, project, gone, late, greet: greet.id, waiting, running, config, control };
};

const startAgain = async (server: TestServer, { config, control }: Before): Promise<After> => {
  const restored: Config = {
    ...config,
    DATABASE_URL: server.url(control),
    PLINTH_REDIS_PREFIX: `${config.PLINTH_REDIS_PREFIX}-restored`,
  };
  const { log } = memoryLog();
  const api = await startApi(restored, log);
  const stopWorker = await startWorker(restored, log);
  const db = openControlDb({ url: restored.DATABASE_URL, connections: 2, log });
  return {
    client: createClient(`http://127.0.0.1:${api.port}`),
    platform: { db, config: restored },
    stop: async () => {
      api.server.closeAllConnections();
      await Promise.all([api.stop(), stopWorker()]);
      await db.close();
    },
  };
};

const prepare = async (old: TestServer): Promise<void> => {
  // The helpers of the tests take the server from here.
  process.env['DATABASE_URL'] = old.url('postgres');
  const platform = await startPlatform({ settings: { PLINTH_FUNCTION_SLOTS: '1', DRAIN_MS: '0' }, worker: false });
  stops.push(platform.stop);
  const stopWorker = await platform.startWorker();
  before = await fill(platform, stopWorker, () => {
    const control = new URL(platform.config.DATABASE_URL).pathname.slice(1);
    const place = { ...placeOf(old), CONTROL: control, BACKUP: folder };
    return run('sh', ['-c', blockOf('Backing up', 'sh')], place);
  });
};

const restore = async (): Promise<void> => {
  await run('sh', ['-c', blockOf('Restoring', 'sh')], { ...placeOf(fresh), BACKUP: folder });
  process.env['DATABASE_URL'] = fresh.url('postgres');
  after = await startAgain(fresh, before);
  stops.push(after.stop);
};

const serverPair = async (): Promise<readonly [TestServer, TestServer] | null> => {
  if (major === null) return null;
  const pair = await Promise.all([startServer(major, 'the same on both'), startServer(major, 'the same on both')]);
  return pair[0] && pair[1] ? [pair[0], pair[1]] : null;
};

const pair = await serverPair();
const withDump = pair === null ? test.serial.skip : test.serial;
const needs = pair === null ? ' (needs pg_dump, and a server that is not newer)' : '';

test.before(async (t) => {
  t.timeout(longTestMs);
  if (pair === null) return;
  fresh = pair[1];
  await prepare(pair[0]);
  await restore();
});

test.after.always(async () => {
  for (const stop of stops.toReversed()) await stop();
  for (const server of pair ?? []) await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

withDump(`a restored project has its rows, its keys and its policies${needs}`, async (t) => {
  const { project } = before;
  const login = await tenantLogin(after.platform, project.id, 'owner');
  const { rows } = await asTenant(login, (session) =>
    session.query<{ text: string }>('select text from notes order by id'),
  );
  t.deepEqual(
    rows.map(({ text }) => text),
    ['kept', 'hidden', 'Ünïcode'],
  );
  const api = await tenantLogin(after.platform, project.id, 'api');
  const seen = await asTenant(api, async (session) => {
    await session.query('set role anon');
    return session.query<{ text: string }>('select text from notes order by id');
  });
  t.deepEqual(
    seen.rows.map(({ text }) => text),
    ['kept', 'Ünïcode'],
  );
  const added = await asTenant(login, (session) =>
    session.query(`insert into notes (text) values ('new') returning id`),
  );
  t.is(Number(added.rows[0].id), 4);
});

// Before anything makes a project here: that would close what the restore left open.
withDump(`restored projects are kept apart as before${needs}`, async (t) => {
  const { project, control } = before;
  const owner = await tenantLogin(after.platform, project.id, 'owner');
  for (const database of [control, 'postgres', 'template1'])
    t.is(await sqlStateOf(asTenant({ ...owner, database }, (session) => session.query('select 1'))), '42501', database);
  for (const catalog of ['pg_database', 'pg_authid', 'pg_stat_activity'])
    t.is(await sqlStateOf(asTenant(owner, (session) => session.query(`select * from ${catalog}`))), '42501', catalog);
  const reader = await tenantLogin(after.platform, project.id, 'reader');
  t.is(await sqlStateOf(asTenant(reader, (session) => session.query('delete from notes'))), '42501');
  const admin = new Connection({ connectionString: fresh.url('postgres') });
  await admin.connect();
  const { rows } = await admin.query<{ datconnlimit: number; marker: string }>(
    `select datconnlimit, shobj_description(oid, 'pg_database') as marker from pg_database where datname = $1`,
    [project.dbName],
  );
  await admin.end();
  t.deepEqual(rows, [{ datconnlimit: 60, marker: `plinth project ${project.id}` }]);
});

withDump(`functions, their secrets, API keys and passwords work on the restored platform${needs}`, async (t) => {
  const { client } = after;
  const { user, project, greet } = before;
  const signedIn = await client.call('POST', '/auth/login', { body: { email: user.email, password: user.password } });
  t.is(signedIn.status, 200);
  const again = { ...user, token: signedIn.body.access_token };
  const answer = await client.invoke(again, project, { id: greet, slug: '' }, 'again');
  t.like(answer.body, { status: 'success', result: 'hello again' });
  const listed = await client.call('GET', `/projects/${project.id}/functions`, { token: again.token });
  const { slug } = listed.body.functions.find(({ id }: { id: string }) => id === greet);
  const byKey = await client.call('POST', `/api/functions/${slug}`, { key: project.key, body: 'key' });
  t.is(byKey.status, 200);
  t.is(byKey.body, 'hello key');
  const made = await client.createProject(again);
  t.truthy(made.key);
});

/** How a job ended on the restored platform; null while it has not. */
const endOf = async (id: string) => {
  const [row] = await after.platform.db.query<{ status: string; error_code: string | null; result: string | null }>(
    'select status, error_code, result from jobs where id = $1',
    [id],
  );
  return row?.status === 'queued' || row?.status === 'running' ? null : row;
};

withDump(`a job that waited at the dump runs, a function that ran is not run again${needs}`, async (t) => {
  t.timeout(longTestMs);
  t.like(await until(() => endOf(before.running)), { status: 'failed', error_code: 'crashed' });
  const ran = await until(() => endOf(before.waiting));
  t.is(ran.status, 'succeeded');
  t.true(ran.result?.includes('hello later'));
});

withDump(`what came after the dump is unknown, and what is left over on a server is listed${needs}`, async (t) => {
  const { late, control, user } = before;
  t.is((await after.client.call('GET', `/projects/${late.id}`, { token: user.token })).status, 404);
  const known = (await sqlOn(fresh, control, 'select array_agg(id) from projects', {})).trim();
  const listing = blockOf('Restoring', 'sql');
  t.is(await sqlOn(fresh, 'postgres', `${listing};`, { known }), '');
  const [less] = [known.replace(before.project.id, late.id)];
  t.is((await sqlOn(fresh, 'postgres', `${listing};`, { known: less })).trim(), before.project.dbName);
});

withDump(`a project that was deleted before the dump is put away without its database${needs}`, async (t) => {
  const { db } = after.platform;
  const { gone } = before;
  const rows = () => db.query('select from projects where id = $1', [gone.id]);
  t.is((await rows()).length, 1);
  const inside = await openPlatform(after.platform.config, memoryLog().log);
  await inside.projects.purge(0);
  await inside.close();
  t.is((await rows()).length, 0);
});
