import { setTimeout as pause } from 'node:timers/promises';
import { systemActor } from '#domain/audit/actor.ts';
import { newId } from '#lib/ids.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';

const schedules = 40;
/** The least interval of a plan that may use seconds. */
const everySeconds = 10;
const kills = 14;
/** In seconds: by then there are processes that fire. */
const headStart = 2;

/** Four of them fire at each second, so that each has fired long before the last kill. */
const createSchedules = (scene: Scene): Promise<void> =>
  scene.db.transaction(async (tx) => {
    await tx.query(`update projects set plan = 'enterprise'`);
    for (let n = 0; n < schedules; n += 1) {
      const second = n % everySeconds;
      await tx.query(
        `insert into schedules (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire,
           next_run_at, due_at)
         select $1, $2, $3, $4, 'UTC', '{"type":"http","url":"http://127.0.0.1/"}', 'null', true, 'allow', 'all', at, at
         from (select to_timestamp($5 + $6 * ceil((extract(epoch from now()) + $7 - $5) / $6)) as at) as next`,
        [
          newId(),
          scene.projects[n % 4],
          `s${n}`,
          `${second}/${everySeconds} * * * * *`,
          second,
          everySeconds,
          headStart,
        ],
      );
    }
  }, systemActor);

const stopSchedules = (scene: Scene): Promise<void> =>
  scene.db.transaction(async (tx) => {
    await tx.query('update schedules set enabled = false, due_at = null');
  }, systemActor);

const justAfterTheSecond = (): Promise<void> => pause(1000 - (Date.now() % 1000) + 3 + Math.random() * 25);

/** Every instant between a schedule's first and last fire has one run, and every run that started has its job. */
const findings = async (scene: Scene): Promise<string[]> => {
  const [gaps, orphans, [count]] = await Promise.all([
    scene.db.query(
      `select from (select fire_at - lag(fire_at) over (partition by schedule_id order by fire_at) as gap
         from schedule_runs where trigger = 'schedule') as gaps where gap <> make_interval(secs => $1)`,
      [everySeconds],
    ),
    scene.db.query(
      `select from schedule_runs r full join jobs j on j.id = r.job_id where r.job_id is null or j.id is null`,
    ),
    scene.db.query<{ fires: number; schedules: number }>(
      'select count(*) as fires, count(distinct schedule_id) as schedules from schedule_runs',
    ),
  ]);
  return [
    ...(gaps.length > 0 ? [`${gaps.length} fires are missing`] : []),
    ...(orphans.length > 0 ? [`${orphans.length} fires without a job, or jobs without a fire`] : []),
    ...(count?.schedules === schedules ? [] : [`${count?.schedules ?? 0} of ${schedules} schedules fired`]),
  ];
};

const tickKilled: Scenario = {
  name: 'cron tick killed',
  did: `${kills} times kill -9 of one of two processes that fire ${schedules} schedules, 3 to 28 ms after the second`,
  run: async (scene) => {
    await scene.startWorkers(1);
    await createSchedules(scene);
    const tickers: Child[] = [];
    const start = async (): Promise<void> => {
      const child = scene.start(`ticker-${newId()}`, 'faults/ticker.ts');
      await child.ready;
      tickers.push(child);
    };
    await Promise.all([start(), start()]);
    scene.faultBegins();
    for (let n = 0; n < kills; n += 1) {
      await justAfterTheSecond();
      tickers.shift()?.signal('SIGKILL');
      await start();
    }
    await pause(2000);
    await stopSchedules(scene);
    scene.faultIsOver();
    return findings(scene);
  },
};

export const cronScenarios: readonly Scenario[] = [tickKilled];
