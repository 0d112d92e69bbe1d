import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

interface Ended {
  readonly run: Answer['body'];
  readonly job: Answer['body'];
}

/** A client for one project's schedules in the tests of targets. */
export interface CronClient {
  readonly project: TestProject;
  readonly call: (method: string, path: string, body?: unknown) => Promise<Answer>;
  readonly create: (target: object, fields?: object) => Promise<string>;
  /** Runs a schedule now; answers the id of the job. */
  readonly begin: (id: string) => Promise<string>;
  /** How the latest run ended. */
  readonly endOf: (id: string) => Promise<Ended>;
  readonly run: (id: string) => Promise<Ended>;
  readonly sqlRun: (sql: string) => Promise<Ended>;
  readonly cancel: (jobId: string) => Promise<void>;
  /** Whether an owner's session runs SQL that holds the mark. */
  readonly runsInDatabase: (mark: string) => Promise<boolean>;
}

const expect = async (answer: Promise<Answer>, status: number): Promise<Answer['body']> => {
  const { status: seen, body, text } = await answer;
  if (seen !== status) throw new Error(text);
  return body;
};

export const cronClient = ({ client, db }: TestPlatform, owner: TestUser, project: TestProject): CronClient => {
  const call: CronClient['call'] = (method, path, body) =>
    client.call(method, `/projects/${project.id}${path}`, {
      token: owner.token,
      ...(body !== undefined && { body }),
    });

  const create: CronClient['create'] = async (target, fields = {}) =>
    (await expect(call('POST', '/cron', { name: 'x', schedule: '@yearly', target, ...fields }), 201)).id;

  const begin: CronClient['begin'] = async (id) => (await expect(call('POST', `/cron/${id}/run`), 202)).job_id;

  const endOf: CronClient['endOf'] = (id) =>
    until(async () => {
      const { body } = await call('GET', `/cron/${id}/runs?limit=1`);
      const [run] = body.runs;
      if (run === undefined || ['waiting', 'queued', 'running'].includes(run.status)) return null;
      return { run, job: run.job_id && (await call('GET', `/jobs/${run.job_id}`)).body };
    });

  const run: CronClient['run'] = async (id) => {
    await begin(id);
    return endOf(id);
  };

  return {
    project,
    call,
    create,
    begin,
    endOf,
    run,
    sqlRun: async (sql) => run(await create({ type: 'sql', sql })),
    cancel: async (jobId) => {
      await expect(call('POST', `/jobs/${jobId}/cancel`, {}), 200);
    },
    runsInDatabase: async (mark) => {
      const active = `select from pg_stat_activity where position($1 in query) > 0 and pid <> pg_backend_pid()
        and state = 'active' and usename like '%_owner'`;
      return (await db.query(active, [mark])).length > 0;
    },
  };
};
