import test from 'ava';
import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import type { ClientBase } from 'pg';
import { upsertDocuments } from '#domain/vectors/vectors.ts';
import { writerLock } from '#domain/vectors/session.ts';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';
import { fakeGateway, useVectors } from './vector-scene.ts';

const { scene } = useVectors(test);

const upsertOf = (plan: 'free' | 'pro', collection: string, id: string) => {
  const { platform, caller } = scene();
  const project = { ...caller.project, plan };
  const documents = [{ id, content: '1 0 0', metadata: '{}' }];
  return upsertDocuments(
    { tenantDb: platform.projects.tenantDb, gateway: fakeGateway() },
    { ...caller, project },
    { collection, model: 'embed-1', documents },
  );
};

const waiting = async (admin: ClientBase): Promise<number[]> => {
  const { rows } = await admin.query<{ pid: number }>(
    `select l.pid from pg_locks l join pg_database d on d.oid = l.database
     where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`,
  );
  return rows.map(({ pid }) => pid);
};

/** Null where the server is not of this machine. */
const priorityOf = (pid: number): number | null => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('postgres:') ? getPriority(pid) : null;
  } catch {
    return null;
  }
};

test.serial('the writers of a Free project take turns across processes, at a low priority', async (t) => {
  await scene().collection('turns');
  await asAdmin(scene().project.dbName, async (admin) => {
    await admin.query('select pg_advisory_lock($1)', [writerLock]);
    const upserts = Promise.all(['a', 'b', 'c'].map((id) => upsertOf('free', 'turns', id)));
    await until(async () => (await waiting(admin)).length > 0);
    const pids = await waiting(admin);
    // The others of this process wait for their turn before they take a connection.
    t.is(pids.length, 1);
    t.true([10, null].includes(priorityOf(pids[0] ?? 0)));
    await admin.query('select pg_advisory_unlock($1)', [writerLock]);
    t.deepEqual(
      (await upserts).map(({ upserted }) => upserted),
      [1, 1, 1],
    );
  });
});

test.serial('those of other plans do not wait for each other', async (t) => {
  await scene().collection('wide');
  await asAdmin(scene().project.dbName, async (admin) => {
    await admin.query('select pg_advisory_lock($1)', [writerLock]);
    t.like(await upsertOf('pro', 'wide', 'a'), { upserted: 1 });
    await admin.query('select pg_advisory_unlock($1)', [writerLock]);
  });
});
