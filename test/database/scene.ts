import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** A project and the members who look into its database. */
export interface DatabaseScene {
  readonly owner: TestUser;
  readonly viewer: TestUser;
  readonly project: TestProject;
  readonly call: (method: string, path: string, body?: unknown, as?: TestUser) => Promise<Answer>;
  readonly query: (sql: string, params?: readonly unknown[], as?: TestUser) => Promise<Answer>;
  /** @throws when it is not answered by 200 */
  readonly run: (sql: string, params?: readonly unknown[]) => Promise<Answer['body']>;
}

export const openScene = async (platform: TestPlatform): Promise<DatabaseScene> => {
  const { client } = platform;
  const owner = await client.signUp();
  const project = await client.createProject(owner, { plan: 'enterprise' });
  const viewer = await addMember(platform, project.orgId, 'viewer');
  const call: DatabaseScene['call'] = (method, path, body, as = owner) =>
    client.call(method, `/projects/${project.id}/db${path}`, {
      token: as.token,
      ...(body !== undefined && { body }),
    });
  const query: DatabaseScene['query'] = (sql, params = [], as = owner) => call('POST', '/query', { sql, params }, as);
  const run: DatabaseScene['run'] = async (sql, params = []) => {
    const answer = await query(sql, params);
    if (answer.status !== 200) throw new Error(`${sql} answered ${answer.status}: ${answer.text}`);
    return answer.body;
  };
  return { owner, viewer, project, call, query, run };
};
