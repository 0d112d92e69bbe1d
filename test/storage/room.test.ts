import sharp from 'sharp';
import test from 'ava';
import { openBytes } from '#domain/storage/bytes.ts';
import { checkFiles } from '#domain/storage/check.ts';
import { makeRendition } from '#domain/storage/renditions.ts';
import { sweepFiles } from '#domain/storage/sweep.ts';
import { findProject } from '#domain/projects/store.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';
import { openServers } from '../database/guard-servers.ts';
import { dataOf, useStorage } from './storage-scene.ts';

/** Bytes in the store beside the files that count for the plan: they have bounds, too. */

const planBytes = 2_000_000;
const fileBytes = 500_000;
const { admin, developer, fetchFile, platform, sql } = useStorage(test, {
  settings: { PLINTH_STORAGE_BYTES_FREE: String(planBytes) },
});

const newFree = () => platform().client.createProject(developer(), { plan: 'free' });

const never = new AbortController().signal;

const storeOf = async ({ id }: TestProject) => {
  const { config, db } = platform();
  const [bytes, project] = [await openBytes(config), await findProject(db, id)];
  if (project === undefined) throw new Error('there is no project');
  return { bytes, config, db, project };
};

const replaceFile = (of: TestProject, letter: string) =>
  fetchFile(
    `/object/${of.slug}/file`,
    { method: 'POST', headers: { apikey: of.key, 'x-upsert': 'true' }, body: letter.repeat(fileBytes) },
    of,
  );

const kept = async ({ dbName }: TestProject): Promise<number> =>
  asAdmin(dbName, async (db) => Number((await db.query('select kept from plinth.storage_usage')).rows[0].kept));

test('one file that is replaced again and again takes no more than twice the plan, and goes on after a sweep', async (t) => {
  const of = await newFree();
  const { bytes, config, db, project } = await storeOf(of);
  const servers = await openServers(platform());
  for (const letter of 'abcdefgh') t.is((await replaceFile(of, letter)).status, 200, letter);
  t.is(await kept(of), 7 * fileBytes);
  const refused = await replaceFile(of, 'i');
  t.is(refused.status, 503);
  t.is(refused.headers.get('retry-after'), '60');
  t.like(await refused.json(), { code: 'overloaded', details: { limit: 2 * planBytes, value: 9 * fileBytes } });
  await until(async () => {
    const rows = await db.query('select from storage_sweeps where project_id = $1 and due_at <= now()', [of.id]);
    return rows.length > 0;
  });
  const sweep = () => sweepFiles({ servers, bytes, keepHours: 24, config }, project, never);
  t.is((await sweep()).removed, 0, 'what was removed a moment ago may be on its way to a reader');
  await asAdmin(of.dbName, (own) =>
    own.query(`update plinth.storage_tombstones set removed_at = removed_at - interval '2 minutes'`),
  );
  t.is((await sweep()).removed, 5);
  t.is(await kept(of), planBytes / 2);
  t.is((await sweep()).removed, 0);
  t.is((await replaceFile(of, 'i')).status, 200);
  t.is(await dataOf(await admin(of).from(of.slug).download('file')).text(), 'i'.repeat(fileBytes));
  t.deepEqual(await checkFiles({ servers, bytes }, project), []);
  await servers.close();
});

test('deleting is never refused, and what was deleted counts as well', async (t) => {
  const of = await newFree();
  const files = admin(of).from(of.slug);
  for (let n = 0; n < 8; n += 1) {
    dataOf(await files.upload(`file-${n}`, 'x'.repeat(fileBytes)));
    t.is(dataOf(await files.remove([`file-${n}`])).length, 1);
  }
  t.is((await files.upload('one more', 'x'.repeat(fileBytes))).error?.message.includes('wait for their removal'), true);
  dataOf(await files.upload('empty', ''));
  t.is(dataOf(await files.remove(['empty'])).length, 1);
  t.deepEqual(await sql(of, 'select name from storage.objects'), []);
});

test('pictures of a project take a part of its room, and the older ones go for new ones', async (t) => {
  const of = await newFree();
  const { project, ...store } = await storeOf(of);
  const raw = Buffer.from(Array.from({ length: 300 * 300 * 3 }, (_, i) => (i * i * 31 + (i >> 3)) % 251));
  const noise = await sharp(raw, { raw: { width: 300, height: 300, channels: 3 } })
    .png()
    .toBuffer();
  dataOf(await admin(of).from(of.slug).upload('noise.png', noise, { contentType: 'image/png' }));
  const [{ version } = {}] = await sql(of, 'select version from storage.objects');
  const make = (width: number, given = store) =>
    makeRendition(given, { projectId: project.id, version: String(version), signal: never }, { width });
  const keys = async (): Promise<string[]> => {
    const all: string[] = [];
    for await (const { key } of store.bytes.list(`pictures/${of.id}/`)) all.push(key);
    return all;
  };
  let width = 300;
  const fill = async (): Promise<string[]> => {
    const made: string[] = [];
    for (let written = 0; written <= planBytes / 4; width -= 1) {
      const { key, size } = await make(width);
      made.push(key);
      written += size;
    }
    return made.toSorted((one, other) => (one < other ? -1 : 1));
  };
  const first = await fill();
  t.deepEqual(await keys(), first, 'who asked for them a moment ago may not have them yet');
  async function* old(prefix: string) {
    for await (const found of store.bytes.list(prefix)) yield { ...found, modifiedAt: new Date(0) };
  }
  await store.db.query('update storage_renditions set bytes = $2 where project_id = $1', [of.id, planBytes / 4]);
  const { key } = await make(width, { ...store, bytes: { ...store.bytes, list: old } });
  t.deepEqual(await keys(), [key]);
});
