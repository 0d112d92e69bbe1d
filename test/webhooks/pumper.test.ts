import test from 'ava';
import type { ControlDb } from '#lib/control-db.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { createPumper } from '#workers/webhooks/scheduler.ts';
import { throttleScene } from './throttle-scene.ts';

const platform = usePlatform(test, { worker: false });
const { underWay, withForgotten } = throttleScene(platform);

/** A database that refuses the first so many of what it is asked. */
const refusing = (db: ControlDb, times: number) => {
  let left = times;
  const or = <T>(work: () => Promise<T>): Promise<T> => {
    left -= 1;
    return left >= 0 ? Promise.reject(new Error('Postgres is away')) : work();
  };
  const refused: ControlDb = {
    ...db,
    query: (...statement) => or(() => db.query(...statement)),
    transaction: (...work) => or(() => db.transaction(...work)),
  };
  return { db: refused, isWell: () => left < 0 };
};

// One after the other: a pass of the fan-out leaves events alone that another one has under way.
for (const [what, say] of [
  ['asked for', 'add'],
  ['of which a try has ended', 'addRoom'],
] as const) {
  test.serial(
    `a webhook ${what} is looked at later when it cannot be looked at now, though its throttle is not due`,
    async (t) => {
      const { db } = platform();
      const { project, id } = await withForgotten();
      const away = refusing(db, 2);
      const gate = { admit: () => Promise.resolve('handed over' as const) };
      const pumper = createPumper({ db: away.db, gate, log: memoryLog().log });
      t.teardown(() => pumper.stop());
      pumper[say]([id]);
      const tries = await until(async () => {
        const found = await underWay(project);
        return found.length > 0 && found;
      });
      t.is(tries.length, 1);
      t.true(away.isWell());
    },
  );
}
