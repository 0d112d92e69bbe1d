import type { Answer, CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** A project of its own, as its owner sees it. */
export interface IntegrationScene {
  readonly user: TestUser;
  readonly project: TestProject;
  /** A call below `/projects/{id}/integrations/providers`. */
  readonly ask: (method: string, path: string, body?: unknown) => Promise<Answer>;
  readonly configure: (provider: string, config: unknown, fields?: object) => Promise<Answer>;
  /** A call as a provider makes it. */
  readonly report: (provider: string, body: string | Buffer, headers: Record<string, string>) => Promise<Answer>;
  /** The events that wait for webhooks, the oldest first. */
  readonly events: () => Promise<{ event: string; data: string }[]>;
  readonly jobs: () => Promise<{ data: string; status: string }[]>;
}

export const integrationScene = async (platform: TestPlatform): Promise<IntegrationScene> => {
  const { client, db } = platform;
  const user = await client.signUp();
  const project = await client.createProject(user);
  const ask: IntegrationScene['ask'] = (method, path, body) => {
    const options: CallOptions = { token: user.token, ...(body !== undefined && { body }) };
    return client.call(method, `/projects/${project.id}/integrations/providers${path}`, options);
  };
  return {
    user,
    project,
    ask,
    configure: (provider, config, fields = {}) => ask('PUT', `/${provider}`, { config, ...fields }),
    report: (provider, raw, headers) => client.call('POST', `/hooks/${project.id}/${provider}`, { raw, headers }),
    events: () =>
      db.query('select event, data::text as data from outbox_events where project_id = $1 order by id', [project.id]),
    jobs: () =>
      db.query(`select data, status from jobs where project_id = $1 and type = 'function.invoke'`, [project.id]),
  };
};

/** Without a webhook that asks for them, events are not kept. */
export const subscribeTo = async (
  { client }: TestPlatform,
  { user, project }: IntegrationScene,
  events: readonly string[],
): Promise<void> => {
  // Inactive: nothing is sent.
  const body = { name: 'listener', url: 'https://example.com/hook', events, is_active: false };
  const made = await client.call('POST', `/projects/${project.id}/integrations/webhooks`, { token: user.token, body });
  if (made.status !== 201) throw new Error(made.text);
};
