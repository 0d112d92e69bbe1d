import { randomBytes } from 'node:crypto';
import path from 'node:path';
import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { type Rotation, rotateKeys } from '#domain/projects/rotate-keys.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { newId, newOrgId, newProjectRef } from '#lib/ids.ts';
import { memoryLog } from '#test/support/platform.ts';
import { openPlatformSealer } from '#lib/platform-sealer.ts';
import { type KeyRing, SecretError, openKeyRing } from '#lib/secrets.ts';
import { createTestDatabase } from '#test/support/databases.ts';
import { startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';

const program = path.join(import.meta.dirname, '../../scripts/rotate-keys.ts');
const newKey = (n: number): string => `${n}:${randomBytes(32).toString('base64')}`;

interface Sealed {
  readonly id: string;
  readonly secret: Buffer;
}

const insertProjects = (db: ControlDb, ring: KeyRing, count: number): Promise<Sealed[]> =>
  db.transaction(async (tx) => {
    const orgId = newOrgId();
    await tx.query(`insert into organizations (id, name) values ($1, 'Keys')`, [orgId]);
    const projects = Array.from({ length: count }, (_, n) => {
      const id = newId();
      return { id, ref: newProjectRef(), slug: `p${n}`, key: ring.newDataKey(id) };
    });
    await tx.query(
      `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
       select given.id, ref, $1, s.id, slug, slug, 'free', 'active', ref, key
       from unnest($2::uuid[], $3::text[], $4::text[], $5::bytea[]) as given (id, ref, slug, key), database_servers s`,
      [
        orgId,
        projects.map(({ id }) => id),
        projects.map(({ ref }) => ref),
        projects.map(({ slug }) => slug),
        projects.map(({ key }) => key),
      ],
    );
    return projects.map(({ id, key }) => ({ id, secret: ring.sealerFor(id, key).seal('word', id) }));
  }, systemActor);

/** A database whose projects and platform are sealed with the old key. */
const openScene = async (count: number) => {
  const database = await createTestDatabase();
  const db = openControlDb({ url: database.url, connections: 2, log: memoryLog().log });
  const [oldKey, added] = [newKey(1), newKey(2)];
  const old = openKeyRing(oldKey);
  const platformSecret = (await openPlatformSealer(db, old)).seal('word', 'platform');
  const sealed = await insertProjects(db, old, count);
  const close = async (): Promise<void> => {
    await db.close();
    await database.drop();
  };
  return { url: database.url, db, oldKey, added, both: `${added},${oldKey}`, platformSecret, sealed, close };
};

type Scene = Awaited<ReturnType<typeof openScene>>;

/** The data keys that open with that ring: the platform's, and the number of projects'. */
const opened = async ({ db, sealed, platformSecret }: Scene, ringText: string): Promise<number> => {
  const ring = openKeyRing(ringText);
  if ((await openPlatformSealer(db, ring)).open('word', platformSecret) !== 'platform') return 0;
  const keys = await db.query<{ id: string; data_key: Buffer }>('select id, data_key from projects');
  const keyOf = new Map(keys.map(({ id, data_key: key }) => [id, key]));
  return sealed.filter(({ id, secret }) => {
    const key = keyOf.get(id);
    return key !== undefined && ring.sealerFor(id, key).open('word', secret) === id;
  }).length;
};

const run = (scene: Scene, ring: string) =>
  startProcess(program, { DATABASE_URL: scene.url, PLINTH_SECRET_KEYS: ring });

test('after the rotation everything opens with the new key alone, and with both', async (t) => {
  const scene = await openScene(3);
  t.like(await rotateKeys(scene.db, openKeyRing(scene.both)), { rewrapped: 4, current: 0, failed: [] });
  t.is(await opened(scene, scene.added), 3);
  t.is(await opened(scene, scene.both), 3);
  await t.throwsAsync(() => opened(scene, scene.oldKey));
  t.like(await rotateKeys(scene.db, openKeyRing(scene.both)), { rewrapped: 0, current: 4, failed: [] });
  t.is((await scene.db.query(`select from audit_entries where action = 'project.update'`)).length, 0);
  await scene.close();
});

const stop = (soFar: Rotation): void => {
  if (soFar.rewrapped > 200) throw new Error('cut off');
};

test('a rotation that stops in the middle leaves all open, and is gone on with', async (t) => {
  const scene = await openScene(250);
  await t.throwsAsync(rotateKeys(scene.db, openKeyRing(scene.both), stop), { message: 'cut off' });
  t.is(await opened(scene, scene.both), 250);
  const { rewrapped, current } = await rotateKeys(scene.db, openKeyRing(scene.both));
  t.true(rewrapped > 0 && current > 0);
  t.is(rewrapped + current, 251);
  t.is(await opened(scene, scene.added), 250);
  await scene.close();
});

test('two rotations at once, and projects that are made meanwhile, end with the new key', async (t) => {
  const scene = await openScene(50);
  const ring = openKeyRing(scene.both);
  await Promise.all([rotateKeys(scene.db, ring), insertProjects(scene.db, ring, 5), rotateKeys(scene.db, ring)]);
  t.is(await opened(scene, scene.added), 50);
  await scene.close();
});

test('the program says what it did; killed at any moment it can be run again', async (t) => {
  t.timeout(longTestMs);
  const scene = await openScene(250);
  const killed = run(scene, scene.both);
  await new Promise((resolve) => killed.child.stdout?.once('data', resolve));
  killed.child.kill('SIGKILL');
  t.is(await killed.end, 'SIGKILL');
  t.is(await opened(scene, scene.both), 250);
  const again = run(scene, scene.both);
  t.is(await again.end, 0, again.stderr());
  t.regex(again.stdout(), /done: \d+ rewrapped, \d+ were already, 0 could not be opened/);
  t.is(await opened(scene, scene.added), 250);
  await scene.close();
});

test('what cannot be opened is named with its missing key, and the program ends with 1', async (t) => {
  t.timeout(longTestMs);
  const scene = await openScene(2);
  const ring = `${newKey(3)},${scene.added}`;
  const end = run(scene, ring);
  t.is(await end.end, 1);
  t.regex(end.stderr(), /platform: Key 1 is missing from PLINTH_SECRET_KEYS/);
  t.regex(end.stdout(), /done: 0 rewrapped, 0 were already, 3 could not be opened/);
  t.is(await opened(scene, scene.oldKey), 2);
  await scene.close();
});

test('a damaged key is passed over, the others are rewrapped', async (t) => {
  const scene = await openScene(3);
  await scene.db.transaction(
    (tx) => tx.query(`update projects set data_key = '\\x00' where id = $1`, [scene.sealed[1]?.id]),
    systemActor,
  );
  const { rewrapped, failed } = await rotateKeys(scene.db, openKeyRing(scene.both));
  t.is(rewrapped, 3);
  t.deepEqual(
    failed.map(({ owner }) => owner),
    [scene.sealed[1]?.id],
  );
  t.throws(() => openKeyRing(scene.both).rewrap('p', Buffer.alloc(64)), { instanceOf: SecretError });
  await scene.close();
});
