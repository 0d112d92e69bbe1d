import { readFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import type { Pool } from 'pg';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type TenantRole, idleInTransactionSeconds, statementTimeoutSeconds } from '#lib/tenant-db.ts';
import type { DatabaseServers } from './database-servers.ts';

/** A process that was ended, so that it is recognized later. */
interface EndedProcess {
  readonly processId: number;
  readonly startedAt: string;
}

/**
 * Remembers which sessions were ended, and which of them go on: some computations of a server check for no
 * interruption.
 */
export interface UncancellableSessions {
  /**
   * @param ended everything on that server that was ended just now, be it once more
   * @param now in ms
   * @returns what goes on for 5 s after its first end, each once
   */
  readonly observe: <E extends EndedProcess>(serverId: string, ended: readonly E[], now?: number) => E[];
  /** Whether it was ended before, in an earlier check. */
  readonly wasEnded: (serverId: string, process: EndedProcess) => boolean;
  /** How many go on. */
  readonly count: () => number;
}

const patienceMs = 5000;

const keyOf = (serverId: string, { processId, startedAt }: EndedProcess): string =>
  `${serverId} ${processId} ${startedAt}`;

export const createUncancellableSessions = (): UncancellableSessions => {
  const known = new Map<string, { readonly since: number; isReported: boolean }>();
  return {
    observe: (serverId, ended, now = performance.now()) => {
      const here = new Set(ended.map((process) => keyOf(serverId, process)));
      for (const key of known.keys()) if (key.startsWith(`${serverId} `) && !here.has(key)) known.delete(key);
      return ended.filter((process) => {
        const key = keyOf(serverId, process);
        const entry = known.get(key) ?? { since: now, isReported: false };
        known.set(key, entry);
        if (entry.isReported || now - entry.since <= patienceMs) return false;
        entry.isReported = true;
        return true;
      });
    },
    wasEnded: (serverId, process) => known.has(keyOf(serverId, process)),
    count: () => [...known.values()].filter(({ isReported }) => isReported).length,
  };
};

/**
 * A session of a project's role that is doing something or keeps a transaction open; or one of its parallel workers.
 */
export interface Session {
  /** The process of the session that the work belongs to: a parallel worker's leader. */
  readonly pid: number;
  /** The process itself. */
  readonly processId: number;
  readonly role: string;
  readonly startedAt: string;
  readonly isIdle: boolean;
  /** How long its statement runs or, idle in a transaction, since when it waits. */
  readonly seconds: number;
  readonly locks: number;
  /** The bound of a statement in a session for SQL of a user (`fence.ts`). Null: as its role may. */
  readonly fencedSeconds?: number | null;
}

type Reason = 'statement' | 'idle_in_transaction' | 'locks' | 'memory';

interface Verdict {
  readonly session: Session;
  readonly act: 'cancel' | 'terminate';
  readonly reason: Reason;
}

export interface WatchdogDeps {
  readonly db: Pick<ControlDb, 'query'>;
  readonly servers: Pick<DatabaseServers, 'admin' | 'address'>;
  readonly log: Log;
  readonly limits?: Limits;
  /** Called after each check; without it a session that cannot be ended stays unnoticed. */
  readonly uncancellable?: UncancellableSessions;
}

export interface Limits {
  /** How long a statement may run, in seconds. */
  readonly statement: (kind: TenantRole) => number;
  /** How long after that a cancelled one may go on: it can catch the cancellation. In seconds. */
  readonly untilTerminated: number;
  /** How long a session may sit in a transaction, in seconds. */
  readonly idleInTransaction: number;
  /** The share of the lock table that all projects use (some 50,000 places under `npm start`). */
  readonly locks: number;
  /** Memory of one process that is its alone. */
  readonly residentKib: number;
}

const graceSeconds = 10;
const requestGraceSeconds = 5;

/** The server's own time-outs come first; these are for what has lifted them. */
export const defaultLimits: Limits = {
  statement: (kind) => statementTimeoutSeconds[kind] + (kind === 'owner' ? graceSeconds : requestGraceSeconds),
  untilTerminated: 5,
  idleInTransaction: idleInTransactionSeconds + graceSeconds,
  locks: 4000,
  residentKib: 512 * 1024,
};

const maxSessions = 1000;

const kindOf = (role: string): TenantRole => role.slice(role.lastIndexOf('_') + 1) as TenantRole;

/** Returns the measure against a session, memory aside; null: none. */
export const judge = (session: Session, limits: Limits = defaultLimits): Verdict | null => {
  if (session.locks > limits.locks) return { session, act: 'terminate', reason: 'locks' };
  if (session.isIdle) {
    const isOver = session.seconds > limits.idleInTransaction;
    return isOver ? { session, act: 'terminate', reason: 'idle_in_transaction' } : null;
  }
  const patience = limits.statement(kindOf(session.role));
  // The fence itself comes first, where its process lives.
  const fenced = (session.fencedSeconds ?? Infinity) + requestGraceSeconds;
  const over = session.seconds - Math.min(patience, fenced);
  if (over <= 0) return null;
  return { session, act: over > limits.untilTerminated ? 'terminate' : 'cancel', reason: 'statement' };
};

/** A number alone is no proof that a process is that session: a server writes the role into its processes' titles. */
const isProcessOf = async ({ processId, pid, role }: Session): Promise<boolean> => {
  const title = await readFile(`/proc/${processId}/cmdline`, 'utf8');
  return title.includes(processId === pid ? ` ${role} ` : `parallel worker for PID ${pid}`);
};

/** Lets everything else on this machine come before a session's process, where that is allowed. */
const slowDown = async (session: Session): Promise<void> => {
  try {
    if (await isProcessOf(session)) setPriority(session.processId, constants.priority.PRIORITY_LOW);
  } catch {
    // Another user's process, or none any more.
  }
};

/** The memory of a server's process on this machine that is its alone, in KiB; null when it cannot be said. */
const residentKib = async (session: Session): Promise<number | null> => {
  try {
    if (!(await isProcessOf(session))) return null;
    const found = /^RssAnon:\s+(\d+) kB/m.exec(await readFile(`/proc/${session.processId}/status`, 'utf8'));
    return found ? Number(found[1]) : null;
  } catch {
    return null;
  }
};

const sessionsOn = async (admin: Pool): Promise<Session[]> => {
  const { rows } = await admin.query<Session>(
    `select coalesce(a.leader_pid, a.pid) as pid, a.pid as "processId", a.usename as role,
       a.backend_start::text as "startedAt", a.state like 'idle%' as "isIdle",
       coalesce(extract(epoch from clock_timestamp() -
         case when a.state like 'idle%' then a.state_change else a.query_start end), 0)::float8 as seconds,
       coalesce(l.locks, 0)::int as locks,
       substring(a.application_name from '^plinth fence (\\d{1,6}) s$')::int as "fencedSeconds"
     from pg_stat_activity a
     left join (select pid, count(*) as locks from pg_locks group by pid having count(*) > 1000) l on l.pid = a.pid
     where a.usename ~ '^[a-z0-9]{20}_(owner|api|service|reader)$' and a.state <> 'idle'
     order by a.query_start limit ${maxSessions}`,
  );
  return rows;
};

const isHere = (host: string): boolean =>
  process.platform === 'linux' &&
  (host.startsWith('/') || host === 'localhost' || host === '::1' || host.startsWith('127.'));

const tooLarge = async (session: Session, limits: Limits): Promise<Verdict | null> => {
  const resident = await residentKib(session);
  return resident !== null && resident > limits.residentKib ? { session, act: 'terminate', reason: 'memory' } : null;
};

/** Other installations may use the server: a role counts when it is recorded as a project's. */
const projectsOfRoles = async (db: WatchdogDeps['db'], roles: readonly string[]): Promise<Map<string, string>> => {
  const rows = await db.query<{ role_name: string; project_id: string }>(
    'select role_name, project_id from project_roles where role_name = any ($1::text[])',
    [roles],
  );
  return new Map(rows.map((row) => [row.role_name, row.project_id]));
};

/** By when the session began and as whom, too: the number may be another session's by now. */
const execute = async (admin: Pool, { session, act }: Verdict): Promise<void> => {
  const stop = act === 'cancel' ? 'pg_cancel_backend' : 'pg_terminate_backend';
  // A parallel worker began later than its leader.
  await admin.query(
    `select ${stop}(pid) from pg_stat_activity
     where pid = $1 and usename = $2 and (backend_start::text = $3 or pid <> $4)`,
    [session.pid, session.role, session.startedAt, session.processId],
  );
};

/**
 * Checks once the sessions of the projects' roles on a server and ends those beyond every limit: a statement that
 * lifted its own time-out, an open transaction that sits idle, a session that holds too much of the shared lock table
 * or, on this machine, too much memory.
 * @returns what was ended
 */
export const watchServer = async (
  { db, servers, log, limits = defaultLimits, uncancellable }: WatchdogDeps,
  serverId: string,
): Promise<readonly Verdict[]> => {
  const admin = await servers.admin(serverId);
  const sessions = await sessionsOn(admin);
  const { host } = await servers.address(serverId);
  const large = isHere(host) ? await Promise.all(sessions.map((session) => tooLarge(session, limits))) : [];
  const verdicts = sessions
    .map((session, nth) => large[nth] ?? judge(session, limits))
    .filter((verdict): verdict is Verdict => verdict !== null);
  if (verdicts.length === 0) {
    uncancellable?.observe(serverId, []);
    return [];
  }
  const projects = await projectsOfRoles(
    db,
    verdicts.map(({ session }) => session.role),
  );
  const ours = verdicts.filter(({ session }) => projects.has(session.role));
  for (const verdict of ours) {
    const { session, act, reason } = verdict;
    const project_id = projects.get(session.role);
    // Once is enough for what is ended again each second.
    log[uncancellable?.wasEnded(serverId, session) === true ? 'debug' : 'warn'](
      { project_id, role: kindOf(session.role), act, reason, seconds: session.seconds },
      'a session was stopped',
    );
    await execute(admin, verdict);
  }
  const ended = ours.filter(({ act }) => act === 'terminate').map(({ session }) => session);
  for (const session of uncancellable?.observe(serverId, ended) ?? []) {
    log.warn(
      { project_id: projects.get(session.role), process_id: session.processId },
      'a session goes on after it was terminated',
    );
    if (isHere(host)) await slowDown(session);
  }
  return ours;
};
