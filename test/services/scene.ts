import type { ExecutionContext, TestFn } from 'ava';
import { createTenantDb } from '#lib/tenant-db.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { type TestPlatform, memoryLog, usePlatform } from '#test/support/platform.ts';
import { tenantLogin } from '#test/support/tenant.ts';
import { CallFault } from '#workers/runtimes/runtime.ts';
import { databaseService } from '#workers/services/database/service.ts';
import { servicesOf } from '#workers/services/services.ts';

/** The interface of user code, without the sandbox between. */
export interface TestRun {
  readonly call: (op: string, args?: object) => Promise<any>; // oxlint-disable-line typescript/no-explicit-any -- answers of every shape
  /** The answer as it is sent. */
  readonly text: (op: string, args?: object) => Promise<string>;
  /** The same with arguments that are JSON already. */
  readonly raw: (op: string, args: string) => Promise<string>;
  readonly query: (sql: string, params?: unknown) => Promise<any>; // oxlint-disable-line typescript/no-explicit-any -- rows of every shape
  readonly close: () => Promise<void>;
}

export interface DatabaseScene {
  readonly user: TestUser;
  readonly project: TestProject;
  readonly platform: TestPlatform;
  readonly open: (timeoutMs?: number) => TestRun;
  /** The server's list of the database's sessions. */
  readonly sessions: (condition: string) => Promise<number>;
}

const endSession = (_projectId: string, pid: number): Promise<void> =>
  asAdmin('postgres', async (admin) => void (await admin.query('select pg_terminate_backend($1)', [pid])));

const opened = (platform: TestPlatform) => {
  const tenantDb = createTenantDb({
    budget: 40,
    login: (projectId, role) => tenantLogin(platform, projectId, role),
    log: memoryLog().log,
  });
  return { tenantDb, services: servicesOf([databaseService({ tenantDb: { lease: tenantDb.lease, endSession } })]) };
};

/** A project's database and runs that use it. */
export const useDatabaseService = (test: TestFn): (() => DatabaseScene) => {
  const platform = usePlatform(test, { shared: true });
  let scene: DatabaseScene | undefined;
  let close: (() => Promise<void>) | undefined;
  test.serial.before('a project', async () => {
    const user = await platform().client.signUp();
    const project = await platform().client.createProject(user, { plan: 'enterprise' });
    const { tenantDb, services } = opened(platform());
    close = tenantDb.close;
    scene = {
      user,
      project,
      platform: platform(),
      open: (timeoutMs = 30_000) => {
        const run = services({ projectId: project.id, timeoutMs, signal: new AbortController().signal });
        const text = (op: string, args: object = {}): Promise<string> => run.call(op, JSON.stringify(args));
        const call: TestRun['call'] = async (op, args) => JSON.parse(await text(op, args));
        return {
          raw: run.call,
          text,
          call,
          query: (sql, params) => call('db.query', { sql, params }),
          close: run.close,
        };
      },
      sessions: (condition) =>
        asAdmin('postgres', async (admin) => {
          const sql = `select from pg_stat_activity where datname = $1 and pid <> pg_backend_pid() and (${condition})`;
          return (await admin.query(sql, [project.dbName])).rows.length;
        }),
    };
  });
  test.after.always(() => close?.());
  return () => {
    if (scene === undefined) throw new Error('there is no project yet');
    return scene;
  };
};

/** The fault that a call ends with; the test fails when it does not end with one. */
export const faultOf = async (
  t: ExecutionContext,
  work: Promise<unknown>,
): Promise<CallFault & { readonly fields: Readonly<Record<string, string>> }> => {
  const fault = await t.throwsAsync(work);
  if (!(fault instanceof CallFault)) throw fault ?? new Error('no fault');
  return fault;
};
