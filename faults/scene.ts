import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Redis } from 'ioredis';
import { pino } from 'pino';
import { systemActor } from '#domain/audit/actor.ts';
import { type Queues, openQueues } from '#domain/jobs/open.ts';
import { type Config, loadConfig } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { newId, newOrgId, newProjectRef } from '#lib/ids.ts';
import type { Surroundings } from '#scripts/with-stack.ts';
import { type Child, startChild } from './children.ts';
import { faultJobs, globalLimit, globalLimits, projectLimit } from './jobs.ts';
import type { JournalLine, Load } from './load.ts';
import type { FaultServers } from './servers.ts';
import type { LimitChange } from './timeline.ts';
import { type Witness, clock, openWitness } from './witness.ts';

/** The parts that all scenarios of a run share. */
export interface Stage {
  readonly surroundings: Surroundings;
  readonly servers: FaultServers;
  readonly print: (line: string) => void;
}

export type LoadOptions = Partial<Omit<Load, 'name' | 'journal'>>;

/** One scenario's own database, Redis keys, projects and processes. */
export interface Scene {
  readonly name: string;
  readonly stage: Stage;
  readonly config: Config;
  readonly env: NodeJS.ProcessEnv;
  readonly db: ControlDb;
  readonly queues: Queues;
  readonly witness: Witness;
  /** For commands of the operator. */
  readonly redis: Redis;
  readonly projects: readonly string[];
  readonly startWorker: () => Promise<Child>;
  readonly startWorkers: (count: number) => Promise<Child[]>;
  /** Workers that have not ended. */
  readonly workers: () => readonly Child[];
  /** Resolves when it is ready; `end` is when it has had all answers. */
  readonly produce: (load?: LoadOptions) => Promise<Child>;
  readonly journal: () => readonly JournalLine[];
  /** When each worker that is gone ended. */
  readonly deaths: ReadonlyMap<string, number>;
  readonly limits: LimitChange[];
  /** Begins the fault, or says that it is over; the first and the last call count. */
  readonly faultBegins: () => void;
  readonly faultIsOver: () => void;
  readonly times: () => { readonly faultAt: number; readonly overAt: number };
  /** For processes other than workers and producers of the harness. */
  readonly start: (name: string, file: string, env?: NodeJS.ProcessEnv) => Child;
  readonly close: () => Promise<void>;
}

const quiet = pino({ level: 'silent' });

const settingsFor = ({ servers, surroundings }: Stage, databaseUrl: string, prefix: string): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  NODE_COMPILE_CACHE: path.join(surroundings.site.runtimeDir, 'compile-cache'),
  DATABASE_URL: databaseUrl,
  REDIS_URL: servers.redisUrl,
  PLINTH_REDIS_PREFIX: prefix,
  PLINTH_SECRET_KEYS: `1:${randomBytes(32).toString('base64')}`,
  PLINTH_DATABASE_POOL: '6',
  PLINTH_FUNCTION_SLOTS: '4',
  PLINTH_CRON_SLOTS: '4',
  PLINTH_LOG_LEVEL: 'info',
  DRAIN_MS: '3000',
  ...globalLimits,
  PLINTH_TEST_WITNESS: servers.witnessUrl,
});

const createProjects = (db: ControlDb, count: number): Promise<string[]> =>
  db.transaction(async (tx) => {
    const orgId = newOrgId();
    await tx.query(`insert into organizations (id, name) values ($1, 'Faults')`, [orgId]);
    const ids = Array.from({ length: count }, newId);
    for (const [n, id] of ids.entries()) {
      await tx.query(
        `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
         select $1, $2, $3, id, $4, $4, 'free', 'active', $4, '' from database_servers limit 1`,
        [id, newProjectRef(), orgId, `p${n}`],
      );
    }
    return ids;
  }, systemActor);

const usualLimits = (): LimitChange[] =>
  faultJobs.flatMap(({ type }) => [
    { type, projectId: '*', limit: projectLimit, from: 0 },
    // One job of each other type is enough for a scenario.
    { type, projectId: null, limit: globalLimit, from: 0 },
  ]);

const usualLoad = {
  kinds: ['again', 'once'],
  count: 150,
  everyMs: 15,
  startAfterMs: 0,
  workMs: 60,
  waitMs: 0,
  way: 'accept',
} as const;

interface Crew {
  readonly deaths: Map<string, number>;
  readonly startWorker: Scene['startWorker'];
  readonly workers: Scene['workers'];
  readonly produce: (load: LoadOptions) => Promise<Child>;
  readonly journal: Scene['journal'];
  readonly start: Scene['start'];
  readonly stop: () => Promise<void>;
}

const crewOf = (stage: Stage, env: NodeJS.ProcessEnv, folder: string, projects: readonly string[]): Crew => {
  const deaths = new Map<string, number>();
  const living = new Set<Child>();
  const workers = new Set<Child>();
  const journals: string[] = [];
  let born = 0;

  const start = (name: string, spec: { file: string; args?: readonly string[]; env?: NodeJS.ProcessEnv }): Child => {
    const child = startChild(stage.surroundings.stack, { ...spec, name, env: { ...env, ...spec.env }, folder });
    living.add(child);
    void child.end.then(() => living.delete(child));
    return child;
  };

  return {
    deaths,
    start: (name, file, own = {}) => start(name, { file, env: own }),
    startWorker: async () => {
      born += 1;
      const name = `worker-${born}`;
      const child = start(name, { file: 'faults/worker.ts', env: { PLINTH_WORKER_NAME: name } });
      workers.add(child);
      const noteDeath = async (): Promise<void> => {
        const { at } = await child.end;
        workers.delete(child);
        deaths.set(name, at);
      };
      void noteDeath();
      await Promise.race([child.ready, child.end]);
      return child;
    },
    workers: () => [...workers],
    produce: async (request) => {
      const name = `producer-${journals.length + 1}`;
      const journal = path.join(folder, `${name}.journal`);
      journals.push(journal);
      const load: Load = {
        ...usualLoad,
        kinds: [...usualLoad.kinds],
        projects: [...projects],
        ...request,
        name,
        journal,
      };
      const child = start(name, { file: 'faults/producer.ts', args: [JSON.stringify(load)] });
      await child.ready;
      return child;
    },
    journal: () =>
      journals
        .filter((file) => existsSync(file))
        .flatMap((file) => readFileSync(file, 'utf8').split('\n').slice(0, -1))
        .map((line) => JSON.parse(line) as JournalLine),
    stop: async () => {
      for (const child of living) child.signal('SIGCONT');
      for (const child of living) child.signal('SIGKILL');
      await Promise.all([...living].map((child) => child.end));
    },
  };
};

/** @param name also names its database and its Redis keys */
export const openScene = async (stage: Stage, name: string): Promise<Scene> => {
  const { servers, surroundings } = stage;
  const id = `${name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 30)}-${randomBytes(3).toString('hex')}`;
  const folder = path.join(surroundings.site.dataDir, id);
  mkdirSync(folder);
  const env = settingsFor(stage, await servers.createDatabase(id), id);
  const config = loadConfig(env);
  const db = openControlDb({ url: config.DATABASE_URL, connections: 3, log: quiet });
  const projects = await createProjects(db, 4);
  const queues = openQueues({ config, log: quiet, db, jobs: faultJobs });
  // Requests fail at once until it is connected, and the first step of a scenario may be one.
  if (queues.redis.status !== 'ready') await once(queues.redis, 'ready');
  const witness = await openWitness(servers.witnessUrl);
  const redis = new Redis(servers.redisUrl);
  redis.on('error', () => undefined);
  const crew = crewOf(stage, env, folder, projects);
  let [faultAt, overAt] = [Number.POSITIVE_INFINITY, 0];
  return {
    ...crew,
    name,
    stage,
    config,
    env,
    db,
    queues,
    witness,
    redis,
    projects,
    limits: usualLimits(),
    startWorkers: (count) => Promise.all(Array.from({ length: count }, crew.startWorker)),
    produce: (load = {}) => crew.produce(load),
    faultBegins: () => (faultAt = Math.min(faultAt, clock())),
    faultIsOver: () => (overAt = clock()),
    times: () => ({ faultAt, overAt }),
    close: async () => {
      await crew.stop();
      redis.disconnect();
      await queues.close();
      await witness.close();
      await db.close();
    },
  };
};
