import type { TestFn } from 'ava';
import {
  type Answer,
  type CallOptions,
  type TestFunction,
  type TestProject,
  type TestUser,
  createClient,
  uniqueName,
} from '#test/support/client.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';

/** A user with a project and a function, whom two API processes serve. */
interface Scene {
  readonly user: TestUser;
  readonly project: TestProject;
  readonly fn: TestFunction;
  /** The address of the second API process. */
  readonly other: string;
}

type Ask = (key: string, what: string, options?: CallOptions, base?: string) => Promise<Answer>;

export interface Requests {
  readonly platform: () => TestPlatform;
  readonly scene: () => Scene;
  /** A POST with an Idempotency-Key. */
  readonly post: (path: string, key: string, options: CallOptions, base?: string) => Promise<Answer>;
  /** Outside a project: answered by the endpoint itself. */
  readonly makeOrg: Ask;
  /** In a project: answered by the endpoint itself, with a secret. */
  readonly makeKey: Ask;
  /** In a project: answered by a job. */
  readonly run: Ask;
  /** @param from what stands behind `from` */
  readonly countRows: (from: string, values: readonly unknown[]) => Promise<number>;
}

export const newKey = (): string => uniqueName('key');

export const isReplay = (answer: Answer): boolean => answer.headers.get('idempotent-replayed') === 'true';

// Takes long enough for other requests to arrive meanwhile.
const slowly = 'export const handler = (p) => new Promise((r) => setTimeout(() => r({ p, at: Math.random() }), 100));';

const makeScene = async ({ client, startApi }: TestPlatform): Promise<Scene> => {
  const user = await client.signUp();
  const project = await client.createProject(user);
  return { user, project, fn: await client.deploy(user, project, slowly), other: await startApi() };
};

/** The requests of the tests of `Idempotency-Key`. */
export const useRequests = (test: TestFn): Requests => {
  const platform = usePlatform(test);
  let made: Scene | undefined;
  test.before('a user has a project and a function', async () => {
    made = await makeScene(platform());
  });
  const scene = (): Scene => {
    if (made === undefined) throw new Error('the scene is not made');
    return made;
  };
  const post: Requests['post'] = (path, key, options, base = platform().base) =>
    createClient(base).call('POST', path, {
      token: scene().user.token,
      ...options,
      headers: { 'idempotency-key': key, ...options.headers },
    });
  return {
    platform,
    scene,
    post,
    makeOrg: (key, name, options, base) => post('/team/orgs', key, { body: { org_name: name }, ...options }, base),
    makeKey: (key, name, options, base) =>
      post(`/projects/${scene().project.id}/api-keys`, key, { body: { name, kind: 'secret' }, ...options }, base),
    run: (key, payload, options, base) => {
      const { project, fn } = scene();
      return post(`/projects/${project.id}/functions/${fn.id}/invoke`, key, { body: { payload }, ...options }, base);
    },
    countRows: async (from, values) => {
      const [row] = await platform().db.query<{ n: number }>(`select count(*) as n from ${from}`, values);
      return row?.n ?? -1;
    },
  };
};
