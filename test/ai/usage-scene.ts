import { until } from '#test/support/until.ts';
import { closeLostCalls } from '#domain/ai/usage/call-store.ts';
import type { TestFn } from 'ava';
import { pino } from 'pino';
import { systemActor } from '#domain/audit/actor.ts';
import { type Budget, setBudget } from '#domain/ai/usage/budget.ts';
import { createCallLog } from '#domain/ai/usage/call-log.ts';
import type { CallEnd, CallIntent, CallLog } from '#domain/ai/usage/usage.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId, newOrgId, newProjectRef } from '#lib/ids.ts';
import { createTestDatabase } from '#test/support/databases.ts';

export const silent = pino({ level: 'silent' });

/** A control database with projects and nothing around it. */
export interface UsageScene {
  readonly url: string;
  readonly db: ControlDb;
  readonly createProject: (budget?: Budget) => Promise<string>;
  /** A log like that of another process. */
  readonly openLog: () => CallLog;
}

const insertProject = (db: ControlDb): Promise<string> =>
  db.transaction(async (tx) => {
    const [orgId, id] = [newOrgId(), newId()];
    await tx.query(`insert into organizations (id, name) values ($1, 'Usage')`, [orgId]);
    await tx.query(
      `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
       select $1, $2, $3, id, 'Usage', 'usage', 'free', 'active', $2, '' from database_servers limit 1`,
      [id, newProjectRef(), orgId],
    );
    return id;
  }, systemActor);

/** Sets a budget as the endpoint does. */
export const putBudget = (db: ControlDb, projectId: string, budget: Budget) =>
  db.transaction((tx) => setBudget(tx, projectId, budget), systemActor);

export const useUsageScene = (test: TestFn): (() => UsageScene) => {
  let scene: UsageScene | undefined;
  const ends: (() => Promise<void>)[] = [];
  test.serial.before('the database is made', async () => {
    const database = await createTestDatabase();
    const db = openControlDb({ url: database.url, connections: 8, log: silent });
    ends.push(() => db.close(), database.drop);
    scene = {
      url: database.url,
      db,
      openLog: () => createCallLog({ db, log: silent }),
      createProject: async (budget) => {
        const id = await insertProject(db);
        if (budget !== undefined) await putBudget(db, id, budget);
        return id;
      },
    };
  });
  test.after.always('the database is dropped', async () => {
    for (const end of ends) await end();
  });
  return () => {
    if (scene === undefined) throw new Error('the database is not there');
    return scene;
  };
};

export const madeIntent = (projectId: string, given: Partial<CallIntent> = {}): CallIntent => ({
  id: newId(),
  projectId,
  kind: 'chat',
  provider: 'openai',
  model: 'gpt-4o-mini',
  requestId: 'test',
  apiKeyId: null,
  startedAt: new Date(),
  reserveNanoUsd: null,
  ...given,
});

export const madeEnd = (given: Partial<CallEnd> = {}): CallEnd => ({
  status: 'success',
  usage: { prompt_tokens: 3, completion_tokens: 2 },
  tokensSource: 'reported',
  costNanoUsd: 10,
  latencyMs: 5,
  ttftMs: null,
  errorCode: null,
  errorMessage: null,
  retries: 0,
  givenUp: false,
  ...given,
});

export interface CallRow {
  readonly id: string;
  readonly status: string;
  readonly cost_nano_usd: number | null;
  readonly reserved_nano_usd: number;
  readonly error_code: string | null;
}

export const rowsOf = (db: ControlDb, projectId: string): Promise<CallRow[]> =>
  db.query<CallRow>(
    'select id, status, cost_nano_usd, reserved_nano_usd, error_code from ai_calls where project_id = $1 order by id',
    [projectId],
  );

export interface Month {
  readonly used: number;
  readonly reserved: number;
}

export const monthOf = async (db: ControlDb, projectId: string): Promise<Month | undefined> => {
  const [row] = await db.query<{ used: number; reserved: number }>(
    `select used_nano_usd as used, reserved_nano_usd as reserved from ai_budget_months
     where project_id = $1 and month = date_trunc('month', now() at time zone 'utc')::date`,
    [projectId],
  );
  return row;
};

/** As if the processes that made a project's calls were gone for 31 s. */
export const forgetHeartbeats = async (db: ControlDb, projectId: string): Promise<void> => {
  await db.query(
    `update ai_call_heartbeats k set seen_at = now() - interval '31 seconds' from ai_calls c
     where c.keeper = k.id and c.project_id = $1`,
    [projectId],
  );
};

/**
 * Closes the open calls of a project as if their processes were gone. Tests beside this one close calls, too: one that they
 * have locked at that moment is passed over.
 */
export const closeForgotten = async (db: ControlDb, projectId: string): Promise<void> => {
  await until(async () => {
    await forgetHeartbeats(db, projectId);
    await closeLostCalls(db, 1000);
    return (await rowsOf(db, projectId)).every(({ status }) => status !== 'open');
  });
};

export const nano = 1_000_000_000;
export const hardBudget = (nanoUsd: number) => ({ monthly_usd: nanoUsd / nano, hard: true });

/** Null when it was granted, else the code. */
export const refusalOf = async (recorded: Promise<void>): Promise<string | null> => {
  try {
    await recorded;
    return null;
  } catch (error) {
    return error instanceof ServiceError ? error.code : String(error);
  }
};

/** A call from its beginning to its end. False: it was refused. */
export const spend = async (log: CallLog, projectId: string, wanted: number, cost: number): Promise<boolean> => {
  const call = log.begin(madeIntent(projectId, { reserveNanoUsd: wanted }));
  const refusal = await refusalOf(call.recorded);
  call.end(madeEnd({ costNanoUsd: cost }));
  return refusal === null;
};
