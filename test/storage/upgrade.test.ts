import { createClient } from '@supabase/supabase-js';
import test from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { makeOld, upgradeAll } from '../database/old-database.ts';
import { dataOf } from './storage-scene.ts';

// On a platform of its own, whose worker has stopped when databases are made old: it would upgrade them meanwhile.
const platform = usePlatform(test, { worker: false });
/** The last version of projects' databases that had no files. */
const lastWithoutFiles = 28;

test.serial(
  'projects of before get files by the upgrade; one with a schema storage of its own keeps that',
  async (t) => {
    const { client } = platform();
    const stopWorker = await platform().startWorker();
    const user = await client.signUp();
    const [plain, own] = [await client.createProject(user), await client.createProject(user)];
    await stopWorker();
    for (const project of [plain, own]) await makeOld(useDatabase(platform(), project), lastWithoutFiles);
    const database = useDatabase(platform(), own);
    await database.query(
      'owner',
      'create schema storage',
      'create table storage.objects (x int)',
      'insert into storage.objects values (1)',
    );
    const { done, logged } = await upgradeAll(platform());
    t.is(done, 2, logged);
    const filesOf = ({ ref, key, slug }: TestProject) =>
      createClient(`${platform().base}/p/${ref}`, key).storage.from(slug);
    dataOf(await filesOf(plain).upload('a.txt', 'hello'));
    t.is(await dataOf(await filesOf(plain).download('a.txt')).text(), 'hello');
    const refused = await filesOf(own).upload('a.txt', 'hello');
    t.is((refused.error as { status?: number } | null)?.status, 409, refused.error?.message);
    t.deepEqual(
      await database.query(
        'owner',
        'insert into storage.objects values (2)',
        'select x from storage.objects order by x',
      ),
      [{ x: 1 }, { x: 2 }],
    );
    const { body } = await client.call('GET', `/projects/${own.id}/usage`, { token: user.token });
    t.is(body.storage_bytes.used, 0);
  },
);
