import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { systemActor } from '#domain/audit/actor.ts';
import { makeSecret, sealSecret } from '#domain/webhooks/secrets.ts';
import { newId } from '#lib/ids.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';

const events = 2000;
const everyMs = 5;
const faults = 12;
const betweenFaultsMs = 900;
const workers = 2;
const deliveredWithinMs = 90_000;

/** A receiver that takes everything, a little slowly, so that deliveries are cut off in the middle. */
const openReceiver = async () => {
  const received = new Map<string, number>();
  const server = createServer((request, response) => {
    const id = String(request.headers['webhook-id']);
    received.set(id, (received.get(id) ?? 0) + 1);
    request.resume();
    setTimeout(() => response.end(), 20);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    received,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

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

const startWorker = async (scene: Scene): Promise<Child> => {
  const child = scene.start(`webhooks-${newId()}`, 'workers/server.ts', {
    WORKER_QUEUES: 'webhooks',
    PLINTH_EGRESS_ALLOW: '127.0.0.0/8',
  });
  await Promise.race([child.ready, child.end]);
  return child;
};

/** What is killed next, by turns in no order that anybody could count on. */
const strike = async (scene: Scene, running: Child[]): Promise<void> => {
  const { redis, postgres } = scene.stage.servers;
  const chance = Math.random();
  if (chance < 0.2) {
    await redis.end('SIGKILL');
    await pause(300);
    return redis.start();
  }
  if (chance < 0.4) {
    await postgres.end('SIGQUIT');
    await pause(300);
    return postgres.start();
  }
  running.shift()?.signal('SIGKILL');
  running.push(await startWorker(scene));
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
  received: ReadonlyMap<string, number>,
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
      const running = await Promise.all(Array.from({ length: workers }, () => startWorker(scene)));
      const emitting = emitAll(scene);
      scene.faultBegins();
      for (let n = 0; n < faults; n += 1) {
        await pause(betweenFaultsMs * (0.5 + Math.random()));
        await strike(scene, running);
      }
      scene.faultIsOver();
      const committed = await emitting;
      return findings(committed, await untilDelivered(scene), receiver.received);
    } finally {
      receiver.close();
    }
  },
};

export const webhookScenarios: readonly Scenario[] = [struckAtRandom];
