import test from 'ava';
import type { ControlDb } from '#lib/control-db.ts';
import type { LaneGate } from '#queues/gate/lane-gate.ts';
import { memoryLog } from '#test/support/platform.ts';
import { testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';
import { type KeeperOptions, startKeeper } from '#workers/keeper/keeper.ts';

test('a leader that hangs in its work goes on saying that it lives', async (t) => {
  const asked = Promise.withResolvers<void>();
  const hang = Promise.withResolvers<never[]>();
  let beats = 0;
  const db = {
    query: (sql: string) => {
      if (sql.startsWith('update job_lanes set leader = $2')) return Promise.resolve([{ epoch: 1 }]);
      if (!sql.startsWith('update jobs')) return Promise.resolve([]);
      asked.resolve();
      return hang.promise;
    },
  } as unknown as ControlDb;
  const gate = {
    lane: { type: 'test.once', name: 'test.once' },
    beat: () => {
      beats += 1;
      return Promise.resolve({ open: true, epoch: '1', now: Date.now(), alive: new Map(), unknown: [], slots: 1 });
    },
  } as unknown as LaneGate;
  const lane = { db, gate, log: memoryLog().log, job: testJobs.once, part: { index: 0, count: 1 } };
  const options = { ...lane, workerId: 'w', slots: 1, globalLimit: null, info: () => '{}' };
  const keeper = startKeeper(options as unknown as KeeperOptions);
  await asked.promise;
  const before = beats;
  t.true(await until(() => Promise.resolve(beats >= before + 2)));
  hang.resolve([]);
  await keeper.stop();
});
