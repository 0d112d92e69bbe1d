import type { TestFn } from 'ava';
import type { Answer, CallOptions, TestFunction, TestProject, TestUser } from '#test/support/client.ts';
import { type TestPlatform, type UseOptions, opsToken, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

/** A project with a function. */
export interface ProjectScene {
  readonly user: TestUser;
  readonly project: TestProject;
  readonly fn: TestFunction;
  /** A call below `/projects/{id}` as its owner. */
  readonly ask: (method: string, path: string, options?: CallOptions) => Promise<Answer>;
  /** Runs the function without waiting; answers the job's id. */
  readonly begin: (payload?: unknown) => Promise<string>;
  /** The job once it is in one of these states. */
  readonly jobWhen: (id: string, ...statuses: string[]) => Promise<Answer['body']>;
}

export interface JobsApi {
  readonly platform: () => TestPlatform;
  readonly scene: (code: string) => Promise<ProjectScene>;
  /** Lets nobody's functions run, or lets them run again. */
  readonly hold: (what: 'pause' | 'resume') => Promise<Answer>;
}

export const endless = 'exports.handler = () => new Promise(() => {})';

/** The jobs API on a platform of its own. */
export const useJobsApi = (test: TestFn, options?: UseOptions): JobsApi => {
  const platform = usePlatform(test, options);
  return {
    platform,
    hold: (what) => platform().client.call('POST', `/ops/api/queues/function.invoke/${what}`, { token: opsToken }),
    scene: async (code) => {
      const { client } = platform();
      const user = await client.signUp();
      const project = await client.createProject(user);
      const fn = await client.deploy(user, project, code, { timeout_ms: 60_000 });
      const ask: ProjectScene['ask'] = (method, path, given = {}) =>
        client.call(method, `/projects/${project.id}${path}`, { token: user.token, ...given });
      return {
        user,
        project,
        fn,
        ask,
        begin: async (payload = null) => {
          const headers = { prefer: 'respond-async' };
          const answer = await ask('POST', `/functions/${fn.id}/invoke`, { body: { payload }, headers });
          if (answer.status !== 202) throw new Error(answer.text);
          return String(answer.body.job_id);
        },
        jobWhen: (id, ...statuses) =>
          until(async () => {
            const { body } = await ask('GET', `/jobs/${id}`);
            return statuses.includes(String(body.status)) && (body as object);
          }),
      };
    },
  };
};
