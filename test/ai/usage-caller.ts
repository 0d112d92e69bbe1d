import { writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { createCallLog } from '#domain/ai/usage/call-log.ts';
import { openControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { madeEnd, madeIntent, silent } from './usage-scene.ts';

/**
 * A process that makes calls until it is killed, and says of each what it knows: `started`, then `recorded`, `refused`
 * or
 * `failed`, and once its end is recorded `settled` with what it cost.
 */

// At once: what was said is said, whenever the process is killed.
const say = (what: string, id: string, cost = 0): void => void writeSync(1, `${what} ${id} ${cost}\n`);

const projects = (process.env['PROJECTS'] ?? '').split(',');
const log = createCallLog({
  db: openControlDb({ url: process.env['DATABASE_URL'] ?? '', connections: 4, log: silent }),
  log: silent,
});

const callOnce = async (projectId: string): Promise<void> => {
  const wanted = Math.ceil(Math.random() * 50);
  const intent = madeIntent(projectId, { reserveNanoUsd: wanted });
  say('begun', intent.id);
  const call = log.begin(intent);
  await call.recorded.then(
    () => say('recorded', intent.id),
    (error: unknown) =>
      say(error instanceof ServiceError && error.code === 'budget_exceeded' ? 'refused' : 'failed', intent.id),
  );
  await pause(Math.random() * 20);
  const costNanoUsd = Math.floor(Math.random() * wanted);
  call.end(madeEnd({ costNanoUsd }));
  await log.settled();
  say('settled', intent.id, costNanoUsd);
};

const callOn = async (n: number): Promise<never> => {
  for (;;) await callOnce(projects[n % projects.length] ?? '');
};

process.send?.({});
await Promise.all(Array.from({ length: 24 }, (_, n) => callOn(n)));
