import { Readable } from 'node:stream';
import test from 'ava';
import { actingAs } from '#domain/audit/actor.ts';
import { openBytes } from '#domain/storage/bytes.ts';
import { checkFiles } from '#domain/storage/check.ts';
import { dueSweeps, removeFilesOfProjects, sweepFiles } from '#domain/storage/sweep.ts';
import { findProject } from '#domain/projects/store.ts';
import { newId } from '#lib/ids.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';
import { openServers } from '../database/guard-servers.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, newProject, platform, sql, developer } = useStorage(test, {});

const scene = async (of: TestProject) => {
  const servers = await openServers(platform());
  const { config } = platform();
  const bytes = await openBytes(config);
  const project = await findProject(platform().db, of.id);
  if (project === undefined) throw new Error('there is no project');
  const keys = async (): Promise<string[]> => {
    const all: string[] = [];
    for await (const { key } of bytes.list(`${of.id}/`)) all.push(key);
    return all;
  };
  return {
    bytes,
    keys,
    check: () => checkFiles({ servers, bytes }, project),
    /** With the grace at an end for all that is there. */
    sweep: (keepHours = -1) => sweepFiles({ servers, bytes, keepHours, config }, project, new AbortController().signal),
    close: () => servers.close(),
  };
};

test('replaced, deleted and orphaned bytes go once their grace is over, and nothing else does', async (t) => {
  const of = await newProject();
  const { bytes, check, close, keys, sweep } = await scene(of);
  const files = admin(of).from(of.slug);
  for (const name of ['kept', 'replaced', 'deleted', 'moved']) dataOf(await files.upload(name, name));
  dataOf(await files.upload('replaced', 'new content', { upsert: true }));
  dataOf(await files.remove(['deleted']));
  dataOf(await files.move('moved', 'folder/moved'));
  await bytes.write(`${of.id}/${newId()}`, Readable.from(['an upload whose process died']), {
    maxBytes: 1000,
    signal: new AbortController().signal,
  });
  t.is((await keys()).length, 6);
  t.deepEqual(
    (await check()).map(({ kind }) => kind),
    ['orphan'],
  );
  t.deepEqual(await sweep(24), { removed: 0, orphans: 0 });
  t.deepEqual(await sweep(), { removed: 2, orphans: 1 });
  t.deepEqual(await sweep(), { removed: 0, orphans: 0 });
  t.is((await keys()).length, 3);
  t.deepEqual(await check(), []);
  for (const [name, text] of [
    ['kept', 'kept'],
    ['replaced', 'new content'],
    ['folder/moved', 'moved'],
  ] as const)
    t.is(await dataOf(await files.download(name)).text(), text);
  await close();
});

test('the checker names objects whose bytes are missing or differ, and a sum that is wrong', async (t) => {
  const of = await newProject();
  const { bytes, check, close, keys } = await scene(of);
  const files = admin(of).from(of.slug);
  dataOf(await files.upload('lost', 'x'));
  const [lost = ''] = await keys();
  dataOf(await files.upload('dir/changed', 'y'));
  const changed = (await keys()).find((key) => key !== lost) ?? '';
  await bytes.remove([lost]);
  await bytes.write(changed, Readable.from(['longer']), { maxBytes: 10, signal: new AbortController().signal });
  await asAdmin(of.dbName, (db) => db.query('update plinth.storage_usage set bytes = 7'));
  t.deepEqual(await check(), [
    { kind: 'usage', what: 'counted are 7 bytes of 2 objects, there are 2 bytes of 2 objects' },
    { kind: 'missing', what: `${of.slug}/lost` },
    { kind: 'size', what: `${of.slug}/dir/changed` },
  ]);
  t.is((await files.download('lost')).error?.message, 'No such object.');
  await close();
});

test('a project is swept at once and then a day later, or sooner for what was deleted', async (t) => {
  const of = await newProject();
  const { db } = platform();
  const dueInHours = async (): Promise<number> => {
    const [row] = await db.query<{ hours: number }>(
      `select extract(epoch from due_at - now())::float8 / 3600 as hours from storage_sweeps where project_id = $1`,
      [of.id],
    );
    return row?.hours ?? 0;
  };
  const isDue = async () => (await dueSweeps(db)).some(({ projectId }) => projectId === of.id);
  // A round of the platform's own worker may have taken it.
  t.true((await isDue()) || (await dueInHours()) > 0);
  t.false(await isDue());
  t.true(Math.abs((await dueInHours()) - 24) < 0.5);
  await db.query(`update storage_sweeps set due_at = now() + interval '3 days' where project_id = $1`, [of.id]);
  dataOf(await admin(of).from(of.slug).upload('a', 'x'));
  dataOf(await admin(of).from(of.slug).remove(['a']));
  await until(async () => Math.abs((await dueInHours()) - 24) < 0.5);
});

test('the bytes of a project that is gone for good go with it', async (t) => {
  const of = await newProject();
  const { bytes, close, keys } = await scene(of);
  dataOf(await admin(of).from(of.slug).upload('a', 'x'));
  const { client, db } = platform();
  t.is((await client.call('DELETE', `/projects/${of.id}`, { token: developer().token })).status, 204);
  t.is((await keys()).length, 1, 'they are kept as long as the database');
  await until(async () => {
    await db.query('delete from jobs where project_id = $1', [of.id]);
    const gone = await db.transaction(
      (tx) => tx.query('delete from projects where id = $1 returning id', [of.id]),
      actingAs({ type: 'system' }, 'project.purge'),
    );
    return gone.length === 1;
  });
  await removeFilesOfProjects(db, bytes);
  t.deepEqual(await keys(), []);
  await close();
});

test('events tell of uploads, replacements, moves and deletions, once somebody subscribes', async (t) => {
  const of = await newProject();
  const files = admin(of).from(of.slug);
  dataOf(await files.upload('before', 'x'));
  await asAdmin(of.dbName, async (db) => {
    await db.query(`insert into plinth.subscriptions values ('storage.upload', 'EVENT'), ('storage.delete', 'EVENT')`);
  });
  dataOf(await files.upload('a', 'x'));
  dataOf(await files.upload('a', 'yy', { upsert: true }));
  dataOf(await files.move('a', 'b'));
  dataOf(await files.remove(['before']));
  dataOf(await files.remove(['b']));
  await files.upload('a'.repeat(2000), 'refused');
  const events = await asAdmin(of.dbName, async (db) => {
    const { rows } = await db.query<{ event: string; row: string }>(
      'select table_name as event, row from plinth.outbox order by id',
    );
    return rows.map(({ event, row }) => {
      const data = JSON.parse(row) as { name: string; size: number; bucket_id: string };
      t.deepEqual(Object.keys(data), ['bucket_id', 'name', 'size', 'mime_type', 'etag', 'owner_id', 'version']);
      return [event, data.name, data.size];
    });
  });
  t.deepEqual(events, [
    ['storage.upload', 'a', 1],
    ['storage.upload', 'a', 2],
    ['storage.delete', 'a', 2],
    ['storage.upload', 'b', 2],
    ['storage.delete', 'before', 1],
    ['storage.delete', 'b', 2],
  ]);
  t.deepEqual(await sql(of, 'select count(*)::int from storage.objects'), [{ count: 0 }]);
});
