import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { Sealer } from '#lib/secrets.ts';
import { upgradeDatabase } from './provision.ts';
import { type DatabaseServers, type HostedProject, projectsOn } from './database-servers.ts';
import { ensureTemplate, projectMigrations, versionOf, versionSetting } from './template.ts';

export interface UpgradeDeps {
  readonly db: ControlDb;
  readonly servers: DatabaseServers;
  readonly sealer: (project: Pick<HostedProject, 'id' | 'data_key'>) => Sealer;
  readonly log: Log;
}

/** Each takes a connection to the server and one to its database. */
const atOnce = 2;

/** The servers that hold projects, as the control database knows them. */
export const serverIds = async (db: Pick<ControlDb, 'query'>): Promise<string[]> =>
  (await db.query<{ id: string }>('select id from database_servers')).map(({ id }) => id);

/** The databases of a server that are as this version makes them: asked once for all, without a connection to any. */
const currentDatabases = async (servers: DatabaseServers, serverId: string): Promise<Set<string>> => {
  const version = versionOf(await projectMigrations());
  const admin = await servers.admin(serverId);
  const { rows } = await admin.query<{ datname: string }>(
    `select d.datname from pg_database d join pg_db_role_setting s on s.setdatabase = d.oid and s.setrole = 0
     where format('%s=%s.%s', $1::text, $2::text, d.oid) = any (s.setconfig)`,
    [versionSetting, version],
  );
  return new Set(rows.map(({ datname }) => datname));
};

/** How often in a row a project's upgrade failed in this process. */
const failures = new Map<string, number>();
const failuresToAlarm = 5;

const noteFailure = (log: Log, projectId: string, error: unknown): void => {
  const times = (failures.get(projectId) ?? 0) + 1;
  failures.set(projectId, times);
  const about = { err: error, project_id: projectId, times };
  if (times < failuresToAlarm) log.warn(about, 'a project database could not be upgraded');
  else log.error(about, 'a project database cannot be upgraded: it stays without what this version guards');
};

/** Upgrades one database after the other; a failed one delays no other and is retried the next time. */
const upgradeEach = async (deps: UpgradeDeps, projects: Iterator<HostedProject>): Promise<number> => {
  let done = 0;
  for (let next = projects.next(); next.done !== true; next = projects.next()) {
    const project = next.value;
    const { db, servers, sealer, log } = deps;
    try {
      await upgradeDatabase({ db, servers, sealer: sealer(project) }, project);
      failures.delete(project.id);
      done += 1;
    } catch (error) {
      noteFailure(log, project.id, error);
    }
  }
  return done;
};

const upgradeServer = async (deps: UpgradeDeps, serverId: string): Promise<number> => {
  await ensureTemplate(deps.servers, serverId);
  const [current, projects] = [await currentDatabases(deps.servers, serverId), await projectsOn(deps.db, serverId)];
  const behind = projects.filter((project) => !current.has(project.db_name)).values();
  const done = await Promise.all(Array.from({ length: atOnce }, () => upgradeEach(deps, behind)));
  return done.reduce((sum, count) => sum + count, 0);
};

/**
 * Brings the databases of existing projects to this version, those of projects that a backup was restored to as well.
 * Where nothing is behind it costs two queries per server. Any number of workers may do it at once.
 * @returns how many databases were upgraded
 */
export const upgradeDatabases = async (deps: UpgradeDeps): Promise<number> => {
  let done = 0;
  for (const serverId of await serverIds(deps.db)) {
    await upgradeServer(deps, serverId).then(
      (count) => (done += count),
      (error: unknown) =>
        deps.log.warn({ err: error, server_id: serverId }, 'the databases of a server wait for their upgrade'),
    );
  }
  if (done > 0) deps.log.info({ projects: done }, 'project databases were brought to this version');
  return done;
};

const everyMs = 60_000;

/** Upgrades what is behind at once, and once a minute what could not be, or was restored meanwhile. */
export const startUpgrades = (deps: UpgradeDeps): Pick<Poller, 'stop'> =>
  startPoller(() => upgradeDatabases(deps), {
    everyMs,
    onFailure: (error) => deps.log.warn({ err: error }, 'upgrading databases failed'),
  });
