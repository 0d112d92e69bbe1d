import type { Answer, CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';

type Ask = (method: string, path: string, options?: CallOptions) => Promise<Answer>;

/** A project with tables, and the ways to ask for them. */
export interface RestProject {
  readonly user: TestUser;
  readonly project: TestProject;
  /** With the secret key, below `{rest_url}/v1/rest`. */
  readonly rest: Ask;
  /** With the publishable key, there. */
  readonly anon: Ask;
  /** With the secret key, below `/rest/v1`, as supabase-js asks. */
  readonly alias: Ask;
  /** With the secret key, below `/api/data`. */
  readonly data: Ask;
  /** Runs SQL as the project's owner; rows of the last statement. */
  readonly sql: (text: string) => Promise<Record<string, unknown>[]>;
}

/** @param options of the project; left out: one of the plan Free */
export const createRestProject = async (
  platform: TestPlatform,
  schema: string,
  options: Parameters<TestPlatform['client']['createProject']>[1] = {},
): Promise<RestProject> => {
  const { client } = platform;
  const user = await client.signUp();
  const project = await client.createProject(user, options);
  const login = await tenantLogin(platform, project.id, 'owner');
  const sql: RestProject['sql'] = (text) =>
    asTenant(login, async (owner) => (await owner.query<Record<string, unknown>>(text)).rows);
  await sql(schema);
  const below =
    (root: string, key: string): Ask =>
    (method, path, options = {}) =>
      client.call(method, `${root}${path}`, { key, ...options });
  return {
    user,
    project,
    sql,
    rest: below(`/p/${project.ref}/v1/rest`, project.key),
    anon: below('/v1/rest', project.publishableKey),
    alias: below('/rest/v1', project.key),
    data: below('/api/data', project.key),
  };
};
