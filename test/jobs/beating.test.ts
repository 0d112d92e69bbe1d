import test from 'ava';
import type { Candidate, Lead } from '#domain/jobs/lanes.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { LaneGate, Pulse } from '#queues/gate/lane-gate.ts';
import { memoryLog } from '#test/support/platform.ts';
import { testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';
import { type KeeperOptions, type LaneOptions, startKeeper } from '#workers/keeper/keeper.ts';

type Answer = (name: string, values: readonly unknown[]) => Promise<unknown[]>;

/** A database of which only the names of statements and their values are seen. */
const answering = (answer: Answer): ControlDb =>
  ({
    query: (sql: string, values: readonly unknown[], name = sql.trim()) => answer(name, values),
  }) as unknown as ControlDb;

interface Scene {
  readonly beats: Map<string, number>;
  readonly lanes: readonly LaneOptions[];
}

const pulse: Pulse = { open: true, epoch: '1', now: 0, alive: new Map(), unknown: [], slots: 1 };

const lanesOn = (db: ControlDb, names: readonly string[], beat = (_name: string) => Promise.resolve(pulse)): Scene => {
  const beats = new Map<string, number>();
  const { log } = memoryLog();
  const lanes = names.map((name) => {
    const gate = {
      lane: { type: name, name },
      beat: () => {
        beats.set(name, (beats.get(name) ?? 0) + 1);
        return beat(name);
      },
    } as unknown as LaneGate;
    const job = { ...testJobs.once, type: name };
    const part = { index: 0, count: 1 };
    return { db, log, gate, job, part, slots: 1, globalLimit: null, info: () => '{}' } as unknown as LaneOptions;
  });
  return { beats, lanes };
};

const keep = (db: ControlDb, lanes: readonly LaneOptions[]) => {
  const { log, text } = memoryLog();
  const options: KeeperOptions = { db, log, workerId: 'w', lanes };
  return { keeper: startKeeper(options), logged: text };
};

const leads = (values: readonly unknown[], lead: Partial<Lead> = {}) =>
  (values[1] as Candidate['name'][]).map((name) => ({
    name,
    epoch: 1,
    due: true,
    running: false,
    waiting: false,
    ...lead,
  }));

test('a lane whose leader hangs in its work goes on beating, leads no more, and holds up no other lane', async (t) => {
  const hang = Promise.withResolvers<never[]>();
  const admitted: unknown[] = [];
  const asked: string[][] = [];
  const db = answering((name, values) => {
    if (name === 'lead-lanes') {
      asked.push(values[1] as string[]);
      return Promise.resolve(leads(values));
    }
    if (name !== 'take-due-jobs') return Promise.resolve([]);
    admitted.push(values[0]);
    return values[0] === 'a' ? hang.promise : Promise.resolve([]);
  });
  const { beats, lanes } = lanesOn(db, ['a', 'b']);
  const { keeper } = keep(db, lanes);
  await until(() => Promise.resolve(admitted.includes('a')));
  const before = beats.get('a') ?? 0;
  t.true(await until(() => Promise.resolve((beats.get('a') ?? 0) >= before + 2)));
  t.true(await until(() => Promise.resolve(admitted.filter((type) => type === 'b').length >= 3)));
  t.is(admitted.filter((type) => type === 'a').length, 1);
  t.deepEqual(asked[0], ['a', 'b']);
  t.true(asked.slice(1).every((names) => names.join() === 'b'));
  hang.resolve([]);
  await keeper.stop();
});

test('a lane in which a worker cannot beat is not led, and Postgres is told that the worker lives', async (t) => {
  const asked: string[][] = [];
  let seen = 0;
  const db = answering((name, values) => {
    if (name === 'note-seen') seen += 1;
    if (name !== 'lead-lanes') return Promise.resolve([]);
    asked.push(values[1] as string[]);
    return Promise.resolve(leads(values, { due: false }));
  });
  const { lanes } = lanesOn(db, ['a', 'b'], (name) =>
    name === 'a' ? Promise.reject(new Error('away')) : Promise.resolve(pulse),
  );
  const { keeper, logged } = keep(db, lanes);
  t.true(await until(() => Promise.resolve(asked.length >= 2 && seen >= 2)));
  t.true(asked.every((names) => names.join() === 'b'));
  t.true(logged().includes('could not say that it lives in a'));
  t.is(logged().split('a beat failed').length - 1, 1, 'said once, not each second');
  await keeper.stop();
});

test('one lane whose work fails says so once, and the others are kept', async (t) => {
  const admitted: unknown[] = [];
  const db = answering((name, values) => {
    if (name === 'lead-lanes') return Promise.resolve(leads(values));
    if (name !== 'take-due-jobs') return Promise.resolve([]);
    admitted.push(values[0]);
    return values[0] === 'a' ? Promise.reject(new Error('broken')) : Promise.resolve([]);
  });
  const { lanes } = lanesOn(db, ['a', 'b']);
  const { log, text } = memoryLog();
  const { keeper } = keep(
    db,
    lanes.map((lane) => ({ ...lane, log })),
  );
  for (const type of ['a', 'b']) {
    t.true(await until(() => Promise.resolve(admitted.filter((one) => one === type).length >= 2)));
  }
  t.is(text().split('the lane cannot be kept just now').length - 1, 1);
  await keeper.stop();
});

test('the leads are left when the worker stops', async (t) => {
  const left: unknown[] = [];
  const db = answering((name, values) => {
    if (name === 'lead-lanes') return Promise.resolve(leads(values, { due: false }));
    if (name.startsWith('update job_lanes set leader = null')) left.push(...values);
    return Promise.resolve([]);
  });
  const { lanes } = lanesOn(db, ['a', 'b']);
  const { keeper } = keep(db, lanes);
  await keeper.ready();
  await keeper.stop();
  t.deepEqual(left, [['a', 'b'], 'w']);
});
