import { type Project, projectColumns } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { inDatabase, planLimits, writeLimits } from './limits.ts';
import type { DatabaseServers } from '../servers/servers.ts';
import { foldCounters, measureSize } from './usage.ts';

export interface LimitsSweepDeps {
  readonly db: Queryable;
  readonly servers: Pick<DatabaseServers, 'admin' | 'connectTo'>;
  readonly log: Log;
}

interface Standing {
  readonly name: string;
  readonly bytes: number;
  /** Grows with each row that is written. */
  readonly writes: number;
}

// Among advisory locks of the server's maintenance database: one sweep at a time.
const sweepLock = 7_245_033;
const atOnce = 4;

const standingsOn = async (deps: LimitsSweepDeps, serverId: string, names: readonly string[]): Promise<Standing[]> => {
  const admin = await deps.servers.admin(serverId);
  const { rows } = await admin.query<Standing>(
    `select d.datname as name, pg_database_size(d.oid)::float8 as bytes,
       (s.tup_inserted + s.tup_updated + s.tup_deleted)::float8 as writes
     from pg_database d join pg_stat_database s on s.datid = d.oid where d.datname = any ($1) and d.datallowconn`,
    [names],
  );
  return rows;
};

/** Does what a plan asks for in one database: its limits, its counts, its size. */
export const sweepDatabase = (servers: Pick<DatabaseServers, 'connectTo'>, project: Project): Promise<void> =>
  inDatabase(servers, project, async (client) => {
    await client.query(`set lock_timeout = '2s'`);
    await writeLimits(client, project.plan);
    await foldCounters(client);
    await measureSize(client);
  });

/**
 * Sweeps the databases that were written to since this process last saw them, and those near their size. One query per
 * server finds them: a thousand idle databases cost no connection.
 * @returns how to sweep once
 */
export const createLimitsSweep = (deps: LimitsSweepDeps): (() => Promise<void>) => {
  const seen = new Map<string, string>();

  const visit = async (project: Project, standing: Standing): Promise<void> => {
    const mark = `${project.plan} ${standing.writes}`;
    const isNear = standing.bytes > planLimits[project.plan].databaseBytes * 0.8;
    if (seen.get(project.id) === mark && !isNear) return;
    await sweepDatabase(deps.servers, project).then(
      () => seen.set(project.id, mark),
      (error: unknown) =>
        deps.log.warn({ err: error, project_id: project.id }, 'the limits of a project were not swept'),
    );
  };

  const sweepServer = async (serverId: string, projects: readonly Project[]): Promise<void> => {
    const names = projects.map(({ db_name }) => db_name);
    const standings = new Map((await standingsOn(deps, serverId, names)).map((row) => [row.name, row]));
    const left = projects.values();
    const worker = async (): Promise<void> => {
      for (const project of left) {
        const standing = standings.get(project.db_name);
        if (standing) await visit(project, standing);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  };

  const alone = async (serverId: string, work: () => Promise<void>): Promise<void> => {
    const client = await (await deps.servers.admin(serverId)).connect();
    try {
      const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [sweepLock]);
      if (rows[0]?.taken !== true) return;
      await work();
      await client.query('select pg_advisory_unlock($1)', [sweepLock]);
    } finally {
      client.release();
    }
  };

  return async () => {
    const projects = await deps.db.query<Project>(
      `select ${projectColumns} from projects p where p.deleted_at is null and p.status = 'active'`,
    );
    const here = new Set(projects.map(({ id }) => id));
    for (const id of seen.keys()) if (!here.has(id)) seen.delete(id);
    for (const [serverId, own] of Map.groupBy(projects, (project) => project.server_id)) {
      await alone(serverId, () => sweepServer(serverId, own));
    }
  };
};
