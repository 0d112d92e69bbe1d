import type { TestFn } from 'ava';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';
import { useWebBuild } from '#test/support/web-build.ts';

/** A platform that serves a dashboard of the present sources. */
export const useDashboard = (test: TestFn): { readonly platform: () => TestPlatform; readonly folder: string } => {
  const settings = useWebBuild(test);
  return { platform: usePlatform(test, { settings }), folder: settings.PLINTH_DASHBOARD_DIR };
};

/** A project, and its owner. */
export interface ProjectScene {
  readonly owner: TestUser;
  readonly project: TestProject;
  /** Calls an address below the project, as its owner. */
  readonly call: (method: string, path: string, body?: unknown) => ReturnType<TestPlatform['client']['call']>;
  /** Runs SQL in its database, and throws where it fails. */
  readonly sql: (text: string) => Promise<Record<string, unknown>[]>;
  /** The address of one of its pages. */
  readonly at: (rest: string) => string;
}

export const newProjectScene = async ({ client, base }: TestPlatform): Promise<ProjectScene> => {
  const owner = await client.signUp();
  const project = await client.createProject(owner, { plan: 'enterprise' });
  const call: ProjectScene['call'] = (method, path, body) =>
    client.call(method, `/projects/${project.id}${path}`, { token: owner.token, ...(body !== undefined && { body }) });
  const sql: ProjectScene['sql'] = async (text) => {
    const answer = await call('POST', '/db/query', { sql: text });
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.body.rows;
  };
  return { owner, project, call, sql, at: (rest) => `${base}/dashboard/projects/${project.id}${rest}` };
};

/** A project of the plan Free, whose calls throw when they are refused. */
export interface CheckedScene extends Pick<ProjectScene, 'owner' | 'project'> {
  /** Answers the body. */
  readonly call: (method: string, path: string, body?: unknown) => Promise<Answer['body']>;
  readonly at: (rest?: string) => string;
}

export const newCheckedScene = async ({ client, base }: TestPlatform): Promise<CheckedScene> => {
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  return {
    owner,
    project,
    at: (rest = '') => `${base}/dashboard/projects/${project.id}${rest}`,
    call: async (method, path, body) => {
      const options = { token: owner.token, ...(body !== undefined && { body }) };
      const answer = await client.call(method, `/projects/${project.id}${path}`, options);
      if (answer.status >= 300) throw new Error(answer.text);
      return answer.body;
    },
  };
};
