import test from 'ava';
import type { Candidate, Leadership } from '#domain/jobs/queue-shards.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { ShardGate, ShardSnapshot } from '#queues/gate/shard-gate.ts';
import { memoryLog } from '#test/support/platform.ts';
import { testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';
import { type ShardLeadersOptions, type ShardOptions, startShardLeaders } from '#workers/shard-leader/shard-leader.ts';

type Answer = (name: string, values: readonly unknown[]) => Promise<unknown[]>;

/** A database of which only the names of statements and their values are seen. */
const answering = (answer: Answer): ControlDb =>
  ({
    query: (sql: string, values: readonly unknown[], name = sql.trim()) => answer(name, values),
  }) as unknown as ControlDb;

interface Scene {
  readonly beats: Map<string, number>;
  readonly shards: readonly ShardOptions[];
}

const snapshot: ShardSnapshot = { open: true, epoch: '1', now: 0, alive: new Map(), unknown: [], slots: 1 };

const shardsOn = (
  db: ControlDb,
  names: readonly string[],
  beat = (_name: string) => Promise.resolve(snapshot),
): Scene => {
  const beats = new Map<string, number>();
  const { log } = memoryLog();
  const shards = names.map((name) => {
    const gate = {
      shard: { type: name, name },
      beat: () => {
        beats.set(name, (beats.get(name) ?? 0) + 1);
        return beat(name);
      },
    } as unknown as ShardGate;
    const job = { ...testJobs.once, type: name };
    const part = { index: 0, count: 1 };
    return { db, log, gate, job, part, slots: 1, globalLimit: null, info: () => '{}' } as unknown as ShardOptions;
  });
  return { beats, shards };
};

const keep = (db: ControlDb, shards: readonly ShardOptions[]) => {
  const { log, text } = memoryLog();
  const options: ShardLeadersOptions = { db, log, workerId: 'w', shards };
  return { shardLeaders: startShardLeaders(options), logged: text };
};

const leads = (values: readonly unknown[], lead: Partial<Leadership> = {}) =>
  (values[1] as Candidate['name'][]).map((name) => ({
    name,
    epoch: 1,
    due: true,
    running: false,
    waiting: false,
    ...lead,
  }));

test('a shard whose leader hangs in its work still sends heartbeats, loses its leadership and delays no other shard', async (t) => {
  const hang = Promise.withResolvers<never[]>();
  const admitted: unknown[] = [];
  const requested: string[][] = [];
  const db = answering((name, values) => {
    if (name === 'claim-leadership') {
      requested.push(values[1] as string[]);
      return Promise.resolve(leads(values));
    }
    if (name !== 'take-due-jobs') return Promise.resolve([]);
    admitted.push(values[0]);
    return values[0] === 'a' ? hang.promise : Promise.resolve([]);
  });
  const { beats, shards } = shardsOn(db, ['a', 'b']);
  const { shardLeaders } = keep(db, shards);
  await until(() => Promise.resolve(admitted.includes('a')));
  const before = beats.get('a') ?? 0;
  t.true(await until(() => Promise.resolve((beats.get('a') ?? 0) >= before + 2)));
  t.true(await until(() => Promise.resolve(admitted.filter((type) => type === 'b').length >= 3)));
  t.is(admitted.filter((type) => type === 'a').length, 1);
  t.deepEqual(requested[0], ['a', 'b']);
  t.true(requested.slice(1).every((names) => names.join() === 'b'));
  hang.resolve([]);
  await shardLeaders.stop();
});

test('a shard to which a worker cannot send heartbeats is not led by it, and the worker records in Postgres that it lives', async (t) => {
  const requested: string[][] = [];
  let seen = 0;
  const db = answering((name, values) => {
    if (name === 'note-seen') seen += 1;
    if (name !== 'claim-leadership') return Promise.resolve([]);
    requested.push(values[1] as string[]);
    return Promise.resolve(leads(values, { due: false }));
  });
  const { shards } = shardsOn(db, ['a', 'b'], (name) =>
    name === 'a' ? Promise.reject(new Error('away')) : Promise.resolve(snapshot),
  );
  const { shardLeaders, logged } = keep(db, shards);
  t.true(await until(() => Promise.resolve(requested.length >= 2 && seen >= 2)));
  t.true(requested.every((names) => names.join() === 'b'));
  t.true(logged().includes('no heartbeat could be sent to a'));
  t.is(logged().split('a heartbeat failed').length - 1, 1, 'said once, not each second');
  await shardLeaders.stop();
});

test('a shard whose work fails logs it once, and the other shards go on', async (t) => {
  const admitted: unknown[] = [];
  const db = answering((name, values) => {
    if (name === 'claim-leadership') return Promise.resolve(leads(values));
    if (name !== 'take-due-jobs') return Promise.resolve([]);
    admitted.push(values[0]);
    return values[0] === 'a' ? Promise.reject(new Error('broken')) : Promise.resolve([]);
  });
  const { shards } = shardsOn(db, ['a', 'b']);
  const { log, text } = memoryLog();
  const { shardLeaders } = keep(
    db,
    shards.map((shard) => ({ ...shard, log })),
  );
  for (const type of ['a', 'b']) {
    t.true(await until(() => Promise.resolve(admitted.filter((one) => one === type).length >= 2)));
  }
  t.is(text().split('the work of the shard leader failed').length - 1, 1);
  await shardLeaders.stop();
});

test('the leads are left when the worker stops', async (t) => {
  const left: unknown[] = [];
  const db = answering((name, values) => {
    if (name === 'claim-leadership') return Promise.resolve(leads(values, { due: false }));
    if (name.startsWith('update queue_shards set leader = null')) left.push(...values);
    return Promise.resolve([]);
  });
  const { shards } = shardsOn(db, ['a', 'b']);
  const { shardLeaders } = keep(db, shards);
  await shardLeaders.ready();
  await shardLeaders.stop();
  t.deepEqual(left, [['a', 'b'], 'w']);
});
