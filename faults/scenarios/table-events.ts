import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { pino } from 'pino';
import { systemActor } from '#domain/audit/actor.ts';
import { inDatabase } from '#domain/database-servers/database-servers.ts';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { type Project, findProject } from '#domain/projects/store.ts';
import { makeSecret, sealSecret } from '#domain/webhooks/secrets.ts';
import { newId } from '#lib/ids.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';
import { type Receiver, type Victim, chance, openReceiver, startDeliverer, strike } from './webhook-parts.ts';

/** Each of the workers is relay, fan-out and deliverer. */
const pools = 'webhooks,system';
const workers = 2;
const deliveredWithinMs = 120_000;

interface Plan {
  /** Written one by one. */
  readonly rows: number;
  readonly everyMs: number;
  readonly betweenFaultsMs: number;
  readonly victims: () => readonly Victim[];
}

interface Site {
  readonly platform: Platform;
  readonly project: Project;
}

const inProject = <T>({ platform, project }: Site, work: (client: Client) => Promise<T>): Promise<T> =>
  inDatabase(platform.servers, project, work);

/** One of the projects gets a database with a table, and a webhook that hears of its writes. */
const openSite = async (scene: Scene, platform: Platform, url: string): Promise<Site> => {
  const [projectId = ''] = scene.projects;
  const ring = openKeyRing(scene.config.PLINTH_SECRET_KEYS);
  const [webhookId, key] = [newId(), ring.newDataKey(projectId)];
  await scene.db.transaction(async (tx) => {
    await tx.query(`update projects set data_key = $2, plan = 'pro', db_name = $3, status = 'creating' where id = $1`, [
      projectId,
      key,
      `faults_${projectId.replaceAll('-', '_')}`,
    ]);
    await tx.query(
      `insert into webhooks (id, project_id, url, events, secret_sealed, rate_per_second)
       values ($1, $2, $3, '{table.orders.INSERT}', $4, 1000)`,
      [webhookId, projectId, url, sealSecret(ring.sealerFor(projectId, key), webhookId, makeSecret())],
    );
  }, systemActor);
  await platform.projects.provision(projectId);
  const project = await findProject(scene.db, projectId);
  if (project === undefined) throw new Error('there is no project');
  const site = { platform, project };
  await inProject(site, (client) => client.query('create table public.orders (id bigint primary key)'));
  await setTableSubscriptions(platform, projectId, [{ table: 'orders', op: 'INSERT' }]);
  return site;
};

/** Writes rows one by one, over one connection after the other; answers those whose commit was confirmed. */
const writeAll = async (site: Site, { rows, everyMs }: Plan): Promise<number[]> => {
  const committed: number[] = [];
  let next = 1;
  const writeOn = async (client: Client): Promise<void> => {
    client.on('error', () => undefined);
    while (next <= rows) {
      const id = next;
      next += 1;
      await client.query('insert into public.orders values ($1)', [id]);
      committed.push(id);
      await pause(everyMs);
    }
  };
  while (next <= rows) await inProject(site, writeOn).catch(() => pause(100));
  return committed;
};

interface Standing {
  /** All rows that are there, confirmed or not. */
  readonly rows: readonly number[];
  /** By the row: the event that tells of it. */
  readonly events: readonly { readonly id: string; readonly row: number; readonly status: string | null }[];
  /** Events that the relay has not taken. */
  readonly left: number;
}

const standing = async (scene: Scene, site: Site): Promise<Standing> => {
  const { rows, left } = await inProject(site, async (client) => {
    const ids = await client.query<{ id: number }>('select id::int as id from public.orders');
    const outbox = await client.query<{ left: number }>('select count(*)::int as left from plinth.outbox');
    return { rows: ids.rows.map(({ id }) => id), left: outbox.rows[0]?.left ?? -1 };
  });
  const events = await scene.db.query<{ id: string; row: number; status: string | null }>(
    `select e.id, (e.data -> 'row' ->> 'id')::int as row, d.status
     from outbox_events e left join webhook_deliveries d on d.event_id = e.id where e.project_id = $1`,
    [site.project.id],
  );
  return { rows, events, left };
};

const untilDelivered = async (scene: Scene, site: Site): Promise<Standing | null> => {
  const deadline = performance.now() + deliveredWithinMs;
  let last: Standing | null = null;
  while (performance.now() < deadline) {
    last = await standing(scene, site).catch(() => last);
    const isDone = last?.left === 0 && last.events.length >= last.rows.length;
    if (isDone && last?.events.every(({ status }) => status === 'success') === true) break;
    await pause(200);
  }
  return last;
};

const count = (what: string, found: number): string[] => (found > 0 ? [`${found} ${what}`] : []);

const rowOf = (body: string): number => (JSON.parse(body) as { data: { id: number } }).data.id;

const problemsOf = (committed: readonly number[], now: Standing, { receivedIds }: Receiver): string[] => {
  const there = new Set(now.rows);
  const reported = new Map(now.events.map(({ id, row }) => [id, row]));
  const rowsEmitted = new Set(reported.values());
  return [
    ...count('rows whose commit was confirmed are gone', committed.filter((id) => !there.has(id)).length),
    ...count('rows have no event', now.rows.filter((id) => !rowsEmitted.has(id)).length),
    ...count('events are of a row that has another one, too', now.events.length - rowsEmitted.size),
    ...count('events are of rows that were never committed', [...rowsEmitted].filter((id) => !there.has(id)).length),
    ...count('events wait in the project', now.left),
    ...count('events are not delivered', now.events.filter(({ status }) => status !== 'success').length),
    ...count('events never arrived', now.events.filter(({ id }) => !receivedIds.has(id)).length),
    ...count(
      'arrivals are of another row than their event, or of none',
      [...receivedIds].filter(([id, body]) => reported.get(id) !== rowOf(body)).length,
    ),
  ];
};

const strikeAll = async (scene: Scene, running: Child[], { victims, betweenFaultsMs }: Plan): Promise<void> => {
  scene.faultBegins();
  for (const victim of victims()) {
    await pause(betweenFaultsMs * (0.5 + Math.random()));
    await strike(scene, running, { victim, pools });
  }
  scene.faultIsOver();
};

const strickenBy = async (scene: Scene, plan: Plan, receiver: Receiver): Promise<string[]> => {
  const platform = await openPlatform(scene.config, pino({ level: 'silent' }));
  try {
    const site = await openSite(scene, platform, receiver.url);
    const running = await Promise.all(Array.from({ length: workers }, () => startDeliverer(scene, pools)));
    const [committed] = await Promise.all([writeAll(site, plan), strikeAll(scene, running, plan)]);
    const now = await untilDelivered(scene, site);
    if (now === null) return ['what became of the events could not be read'];
    const again = receiver.arrivals() - receiver.receivedIds.size;
    scene.stage.print(
      `  ${now.rows.length} rows, ${now.events.length} events, ${again} came again under their webhook-id`,
    );
    return problemsOf(committed, now, receiver);
  } finally {
    await platform.close();
  }
};

const scenarioOf = (name: string, did: string, plan: Plan): Scenario => ({
  name,
  did,
  isWitnessed: false,
  restWithinMs: 90_000,
  run: async (scene) => {
    const receiver = await openReceiver();
    try {
      return await strickenBy(scene, plan, receiver);
    } finally {
      receiver.close();
    }
  },
});

const faults = 16;

const atRandom = scenarioOf(
  'webhooks and relay struck at random',
  `${faults} times, by chance, kill -9 of one of ${workers} workers that are relay, fan-out and deliverer, of Redis, or an immediate stop of Postgres, while 2500 rows are committed to a table of a project: each row has one event, each event is delivered, and what comes again has the same webhook-id`,
  { rows: 2500, everyMs: 4, betweenFaultsMs: 900, victims: () => Array.from({ length: faults }, chance) },
);

/** For the tests: one of each, in the order in which they hold up each other least. */
export const struckShortly = scenarioOf(
  'webhooks and relay struck shortly',
  'kill -9 of a worker, of Redis, and an immediate stop of Postgres, while rows are committed to a table of a project',
  { rows: 700, everyMs: 3, betweenFaultsMs: 500, victims: () => ['worker', 'redis', 'postgres'] },
);

export const tableEventScenarios: readonly Scenario[] = [atRandom];
