import { setTimeout as pause } from 'node:timers/promises';
import { systemActor } from '#domain/audit/actor.ts';
import { makeSecret, sealSecret } from '#domain/webhooks/secrets.ts';
import { newId } from '#lib/ids.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';
import { tableEventScenarios } from './table-events.ts';
import { chance, openReceiver, startDeliverer, strike } from './webhook-parts.ts';

const events = 2000;
const everyMs = 5;
const faults = 12;
const betweenFaultsMs = 900;
const workers = 2;
const deliveredWithinMs = 90_000;

/** One webhook in each project; the harness's projects have no key of their own yet. */
const subscribe = (scene: Scene, url: string): Promise<void> =>
  scene.db.transaction(async (tx) => {
    const ring = openKeyRing(scene.config.PLINTH_SECRET_KEYS);
    for (const project of scene.projects) {
      const [id, key] = [newId(), ring.newDataKey(project)];
      await tx.query(`update projects set data_key = $2, plan = 'pro' where id = $1`, [project, key]);
      await tx.query(
        `insert into webhooks (id, project_id, url, events, secret_sealed, rate_per_second)
         values ($1, $2, $3, '{*}', $4, 1000)`,
        [id, project, url, sealSecret(ring.sealerFor(project, key), id, makeSecret())],
      );
    }
  }, systemActor);

/** Commits events one by one; answers the ids of those whose commit was confirmed. */
const emitAll = async (scene: Scene): Promise<string[]> => {
  const committed: string[] = [];
  const writes: Promise<void>[] = [];
  const write = async (project: string): Promise<void> => {
    const id = newId();
    const isKept = await scene.db
      .query(`insert into outbox_events (id, project_id, event, data) values ($1, $2, 'auth.login', '{}')`, [
        id,
        project,
      ])
      .then(
        () => true,
        () => false,
      );
    if (isKept) committed.push(id);
  };
  for (let n = 0; n < events; n += 1) {
    writes.push(write(scene.projects[n % scene.projects.length] ?? ''));
    await pause(everyMs);
  }
  await Promise.all(writes);
  return committed;
};

interface Standing {
  readonly id: string;
  readonly status: string | null;
}

const standings = ({ db }: Scene): Promise<Standing[]> =>
  db.query<Standing & { id: string }>(
    'select e.id, d.status from outbox_events e left join webhook_deliveries d on d.event_id = e.id',
  );

const untilDelivered = async (scene: Scene): Promise<Standing[]> => {
  const deadline = performance.now() + deliveredWithinMs;
  for (;;) {
    const rows = await standings(scene).catch(() => []);
    const isDone = rows.length > 0 && rows.every(({ status }) => status === 'success');
    if (isDone || performance.now() > deadline) return rows;
    await pause(200);
  }
};

/** Every event whose commit was confirmed is there; every one that is there was delivered, and had arrived. */
const findings = (
  committed: readonly string[],
  rows: readonly Standing[],
  received: ReadonlyMap<string, unknown>,
): string[] => {
  const known = new Set(rows.map(({ id }) => id));
  const lost = committed.filter((id) => !known.has(id));
  const pending = rows.filter(({ status }) => status !== 'success');
  const unheard = rows.filter(({ id, status }) => status === 'success' && !received.has(id));
  const strange = [...received.keys()].filter((id) => !known.has(id));
  return [
    ...(lost.length > 0 ? [`${lost.length} committed events are lost`] : []),
    ...(pending.length > 0 ? [`${pending.length} events are not delivered`] : []),
    ...(unheard.length > 0 ? [`${unheard.length} events are recorded as delivered and never arrived`] : []),
    ...(strange.length > 0 ? [`${strange.length} deliveries of events that were never committed`] : []),
  ];
};

const struckAtRandom: Scenario = {
  name: 'webhooks struck at random',
  did: `${faults} times, by chance, kill -9 of one of ${workers} workers that deliver, of Redis, or an immediate stop of Postgres, while ${events} events are committed`,
  isWitnessed: false,
  restWithinMs: 90_000,
  run: async (scene) => {
    const receiver = await openReceiver();
    try {
      await subscribe(scene, receiver.url);
      const running = await Promise.all(Array.from({ length: workers }, () => startDeliverer(scene, 'webhooks')));
      const emitting = emitAll(scene);
      scene.faultBegins();
      for (let n = 0; n < faults; n += 1) {
        await pause(betweenFaultsMs * (0.5 + Math.random()));
        await strike(scene, running, { victim: chance(), pools: 'webhooks' });
      }
      scene.faultIsOver();
      const committed = await emitting;
      return findings(committed, await untilDelivered(scene), receiver.receivedIds);
    } finally {
      receiver.close();
    }
  },
};

export const webhookScenarios: readonly Scenario[] = [struckAtRandom, ...tableEventScenarios];
