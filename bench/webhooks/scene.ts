import { randomBytes } from 'node:crypto';
import { systemActor } from '#domain/audit/actor.ts';
import { type WaitingMarks, createWaitingMarks } from '#domain/events/marks.ts';
import type { Plan } from '#domain/projects/store.ts';
import { makeSecret, sealSecret } from '#domain/webhooks/secrets.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { newId, newOrgId, newProjectRef } from '#lib/ids.ts';
import { openRequestRedis } from '#lib/redis.ts';
import { type KeyRing, openKeyRing } from '#lib/secrets.ts';
import type { Bench } from '../harness.ts';
import { type Child, withChildren } from '../jobs/child.ts';
import { onControlDatabase } from '../jobs/database.ts';
import { removeKeys, withRedis } from '../jobs/round.ts';
import { log } from '../jobs/ways/side.ts';
import { requiredIn } from '../settings.ts';

/** A database, one worker that delivers, and a receiver in a process of its own. */
export interface Scene {
  readonly bench: Bench;
  readonly databaseUrl: string;
  readonly db: ControlDb;
  readonly marks: WaitingMarks;
  readonly prefix: string;
  readonly receiver: Child;
  /** The receiver's address. */
  readonly url: string;
  /** On the plan enterprise. */
  readonly addProject: () => Promise<string>;
  readonly addProjectOf: (plan: Plan) => Promise<string>;
  /** @returns its id */
  readonly addWebhook: (projectId: string, url: string) => Promise<string>;
  /** @returns its process id */
  readonly startWorker: () => Promise<number>;
  /** The other side of a comparison. */
  readonly startLoop: () => Child;
  readonly close: () => Promise<void>;
}

const addProject = async (
  { db, ring, orgId }: { readonly db: ControlDb; readonly ring: KeyRing; readonly orgId: string },
  plan: Plan = 'enterprise',
): Promise<string> => {
  const id = newId();
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
         select $1, $2, $3, id, 'p', $4, $6, 'active', $4, $5 from database_servers limit 1`,
        [id, newProjectRef(), orgId, newOrgId(), ring.newDataKey(id), plan],
      ),
    systemActor,
  );
  return id;
};

const addWebhook = async (db: ControlDb, ring: KeyRing, projectId: string, url: string): Promise<string> => {
  const id = newId();
  const [project] = await db.query<{ data_key: Buffer }>('select data_key from projects where id = $1', [projectId]);
  if (project === undefined) throw new Error('there is no such project');
  const sealer = ring.sealerFor(projectId, project.data_key);
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into webhooks (id, project_id, url, events, secret_sealed, rate_per_second)
         values ($1, $2, $3, '{*}', $4, 100000)`,
        [id, projectId, url, sealSecret(sealer, id, makeSecret())],
      ),
    systemActor,
  );
  return id;
};

const open = async (bench: Bench, databaseUrl: string, start: (program: string) => Child): Promise<Scene> => {
  const prefix = `bench-${randomBytes(6).toString('hex')}`;
  const db = openControlDb({ url: databaseUrl, connections: 4, log });
  const ring = openKeyRing(requiredIn(bench.env, 'PLINTH_SECRET_KEYS'));
  const redis = openRequestRedis(requiredIn(bench.env, 'REDIS_URL'), log);
  const orgId = newOrgId();
  await db.transaction(async (tx) => {
    await tx.query(`insert into organizations (id, name) values ($1, 'bench')`, [orgId]);
  }, systemActor);
  const receiver = start('receiver');
  return {
    bench,
    databaseUrl,
    db,
    prefix,
    receiver,
    marks: createWaitingMarks({ redis, prefix, log }),
    url: await receiver.ask<string>('open'),
    addProject: () => addProject({ db, ring, orgId }),
    addProjectOf: (plan) => addProject({ db, ring, orgId }, plan),
    addWebhook: (projectId, url) => addWebhook(db, ring, projectId, url),
    startWorker: async () => {
      const { pid } = await bench.servers.start({
        name: 'webhooks-worker',
        file: 'workers/server.ts',
        nodeArgs: ['--no-node-snapshot'],
        env: {
          DATABASE_URL: databaseUrl,
          PLINTH_REDIS_PREFIX: prefix,
          WORKER_QUEUES: 'webhooks',
          PLINTH_LOG_LEVEL: 'warn',
          PLINTH_WORKER_PORT: '',
        },
      });
      return pid;
    },
    startLoop: () => start('loop'),
    close: async () => {
      redis.disconnect();
      await db.close();
    },
  };
};

/** Gives `work` a scene of its own; afterwards nothing of it is left. */
export const onScene = <T>(bench: Bench, work: (scene: Scene) => Promise<T>): Promise<T> =>
  onControlDatabase(bench, (databaseUrl) =>
    withChildren(
      bench,
      async (start) => {
        const scene = await open(bench, databaseUrl, start);
        try {
          return await work(scene);
        } finally {
          await bench.servers.stopAll();
          await scene.close();
          await removeKeys(bench, scene.prefix);
          await withRedis(bench, (redis) => redis.del(`${scene.prefix}:events:waiting`));
        }
      },
      'webhooks',
    ),
  );

/** Writes so many events of a project at once, and says so. */
export const emit = async (scene: Scene, projectId: string, count: number): Promise<void> => {
  await scene.db.query(
    `insert into outbox_events (project_id, event, data, created_at)
     select $1, 'auth.signup', '{"id":"0192d0c0-0000-7000-8000-000000000000","total":12.5}', clock_timestamp()
     from generate_series(1, $2)`,
    [projectId, count],
    'bench-emit',
  );
  scene.marks.markWaiting();
};
