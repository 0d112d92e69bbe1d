import { LRUCache } from 'lru-cache';
import type { ClientBase } from 'pg';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { mentionsSchemaChange } from '#domain/database/console/statement-words.ts';
import { refusedForCaller } from '#domain/ai/sql-guard/caller-sql.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import type { TenantRole } from '#lib/tenant-db.ts';
import type { RunCaller } from '../../processors/function-invoke.ts';
import type { Answer as Answering, OpenService } from '../services.ts';
import { OwnTypes, rowsText } from '#lib/postgres/answer-text.ts';
import { endArgs, insertArgs, parseArgs, queryArgs, removeArgs, selectArgs, updateArgs } from './arguments.ts';
import { type Answer, type Statement, runBound } from '#lib/postgres/bound-query.ts';
import { databaseFault, faultOfStatement } from './faults.ts';
import { JsonText } from '#lib/json-text.ts';
import {
  type Condition,
  type Row,
  insertStatement,
  numbered,
  removeStatement,
  selectStatement,
  updateStatement,
} from './statements.ts';
import { RunSessions } from './sessions.ts';
import { type TransactionJobsDeps, enqueueWithin } from './transaction-jobs.ts';

export interface DatabaseServiceDeps extends ChangeListeners {
  readonly tenantDb: Pick<ProjectDb, 'lease' | 'endSession'>;
  /** Left out: transactions enqueue no jobs. */
  readonly jobs?: TransactionJobsDeps;
}

/** The run ends first, so that a statement that takes too long is a run that did. */
const slackMs = 1000;
const ownTypesKeptMs = 60_000;

interface Order {
  readonly tx?: number | null | undefined;
  readonly statement: Statement;
  /** Whether the author wrote all of it. */
  readonly ownSql?: boolean;
  readonly firstOnly?: boolean;
}

interface Given {
  readonly style?: 'percent' | null | undefined;
  readonly params?: readonly unknown[] | null | undefined;
}

const statementOf = (sql: string, { style, params }: Given): Statement => ({
  sql: numbered(sql, style ?? 'numbered', params ?? null),
  params: params ?? [],
});

const conditionOf = (where: string, given: Given): Condition => {
  const { sql, params } = statementOf(where, given);
  return { where: sql, params };
};

const firstOf = ({ text }: JsonText): JsonText => new JsonText(text === '[]' ? 'null' : text.slice(1, -1));

const isMany = (data: Row | readonly Row[]): data is readonly Row[] => Array.isArray(data);

/** As whom the statements of a run are carried out. */
interface Way {
  readonly sessions: RunSessions;
  /** Comes before each statement, on its connection. */
  readonly enter?: (client: ClientBase, sql: string) => Promise<void>;
}

/** The calls of one run, each a parsed order that `rows` or `count` carries out. */
const answersOf = (
  { sessions, enter }: Way,
  types: OwnTypes,
  noteSql: (sql: string) => void,
): Record<string, Answering> => {
  const run = async <T>(order: Order, read: (answer: Answer, arrays: ReadonlySet<number>) => T): Promise<T> => {
    const session = typeof order.tx === 'number' ? sessions.transaction(order.tx) : await sessions.home();
    try {
      return await session.use(async (client) => {
        await enter?.(client, order.statement.sql);
        const answer = await runBound(client, order.statement, order.firstOnly);
        return read(answer, await types.arraysOf(client, answer));
      });
    } catch (error) {
      throw faultOfStatement(error, order.ownSql === true);
    }
  };
  const rows = (order: Order): Promise<JsonText> => run(order, rowsText);
  const count = (order: Order): Promise<number> => run(order, ({ rowCount }) => rowCount);

  const query = (op: string, firstOnly: boolean, args: unknown): Promise<JsonText> => {
    const { tx, sql, ...given } = parseArgs(queryArgs, op, args);
    noteSql(sql);
    return rows({ tx, statement: statementOf(sql, given), ownSql: true, firstOnly });
  };

  return {
    'db.query': async (args) => query('db.query', false, args),
    'db.queryOne': async (args) => firstOf(await query('db.queryOne', true, args)),
    'db.insert': async (args) => {
      const { tx, table, data } = parseArgs(insertArgs, 'db.insert', args);
      if (!isMany(data)) return firstOf(await rows({ tx, statement: insertStatement(table, [data]) }));
      return data.length === 0 ? [] : rows({ tx, statement: insertStatement(table, data) });
    },
    'db.select': async (args) => {
      const { tx, table, where, ...given } = parseArgs(selectArgs, 'db.select', args);
      const condition = (where ?? '').trim() === '' ? null : conditionOf(where ?? '', given);
      return rows({ tx, statement: selectStatement(table, condition) });
    },
    'db.update': async (args) => {
      const { tx, table, data, where, ...given } = parseArgs(updateArgs, 'db.update', args);
      return count({ tx, statement: updateStatement(table, data, conditionOf(where, given)) });
    },
    'db.remove': async (args) => {
      const { tx, table, where, ...given } = parseArgs(removeArgs, 'db.remove', args);
      return count({ tx, statement: removeStatement(table, conditionOf(where, given)) });
    },
  };
};

const explained = async (work: Promise<unknown>): Promise<unknown> => {
  try {
    return await work;
  } catch (error) {
    throw faultOfStatement(error, false);
  }
};

const endingsOf = (sessions: RunSessions): Record<string, Answering> => {
  return {
    'db.begin': () => explained(sessions.begin()),
    'db.commit': async (args) => explained(sessions.commit(parseArgs(endArgs, 'db.commit', args).tx)),
    'db.rollback': async (args) => explained(sessions.rollback(parseArgs(endArgs, 'db.rollback', args).tx)),
  };
};

const serviceCaller: RunCaller = { role: 'service', claims: '{"role":"service_role"}' };

const loginOf = ({ role }: RunCaller): TenantRole => (role === 'service' ? 'service' : 'api');

const callersSettings = `select pg_catalog.set_config('role', $1, false),
  pg_catalog.set_config('request.jwt.claims', $2, false)`;

/**
 * Statements with the caller's role and claims. They are settings of the session, set anew before each statement, so
 * that what SQL of the project does to them lasts no longer than that; the statement itself cannot change them.
 */
const callersWay = (sessions: RunSessions, { role, claims }: RunCaller): Way => ({
  sessions,
  enter: async (client, sql) => {
    const refusal = refusedForCaller(sql);
    if (refusal !== null) throw databaseFault(refusal.code, refusal.message);
    await client.query(callersSettings, [role === 'service' ? 'none' : role, claims]);
  },
});

const underCaller = (answers: Record<string, Answering>): Record<string, Answering> =>
  Object.fromEntries(Object.entries(answers).map(([op, answer]) => [`asCaller.${op}`, answer]));

/**
 * The project's own database for its functions, as the project's owner role. One connection is leased at a run's first
 * call and kept for it, so that settings and temporary tables last from call to call; each transaction has its own.
 * After the run nothing of a session is left for the next.
 */
export const databaseService = ({ tenantDb, jobs, ...listeners }: DatabaseServiceDeps): OpenService => {
  const ownTypes = new LRUCache<string, OwnTypes>({ max: 1000, ttl: ownTypesKeptMs });
  return (run) => {
    const { projectId, timeoutMs, caller = serviceCaller, depth = 0 } = run;
    let endsAt: number | undefined;
    const leftMs = (): number => {
      const now = performance.now();
      // The run's time counts from when its process is there, which may take a while: from the first call is late
      // enough.
      endsAt ??= now + timeoutMs + slackMs;
      return Math.max(1, Math.ceil(endsAt - now));
    };
    let changesSchema = false;
    const noteSql = (sql: string): void => {
      changesSchema ||= mentionsSchemaChange(sql);
    };
    const options = { tenantDb, projectId, leftMs, depth };
    const sessions = new RunSessions({ ...options, role: 'owner' });
    const asCaller = callersWay(new RunSessions({ ...options, role: loginOf(caller) }), caller);
    const types = ownTypes.get(projectId) ?? new OwnTypes();
    ownTypes.set(projectId, types);
    return {
      answers: {
        ...answersOf({ sessions }, types, noteSql),
        ...endingsOf(sessions),
        ...(jobs && { 'db.enqueue': (args: unknown) => enqueueWithin(jobs, run, sessions, args) }),
        ...underCaller({ ...answersOf(asCaller, types, noteSql), ...endingsOf(asCaller.sessions) }),
      },
      close: async () => {
        sessions.end();
        asCaller.sessions.end();
        // Set at the first call: before that nothing was changed.
        if (endsAt !== undefined) noteChange(listeners, projectId, { schema: changesSchema, rows: true });
      },
    };
  };
};
