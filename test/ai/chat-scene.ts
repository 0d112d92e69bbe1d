import type { ProviderName } from '#domain/ai/providers/providers.ts';
import { type AiUpstream, startAiUpstream } from '#test/support/ai-upstream.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** A project whose providers are played. */
export interface ChatScene {
  readonly user: TestUser;
  readonly project: TestProject;
  readonly upstream: AiUpstream;
}

export const configure = async (
  { client }: Pick<TestPlatform, 'client'>,
  { user, project }: Pick<ChatScene, 'user' | 'project'>,
  provider: ProviderName,
  baseUrl: string,
): Promise<void> => {
  const body = { provider, api_key: `sk-test-${provider}-0123456789`, base_url: baseUrl };
  const answer = await client.call('POST', `/projects/${project.id}/ai/providers`, { token: user.token, body });
  if (answer.status > 201) throw new Error(`configuring ${provider} answered ${answer.status}: ${answer.text}`);
};

/** Close its `upstream` at the end. */
export const createScene = async (platform: Pick<TestPlatform, 'client'>): Promise<ChatScene> => {
  const upstream = await startAiUpstream();
  const user = await platform.client.signUp();
  const project = await platform.client.createProject(user);
  const scene = { user, project, upstream };
  await configure(platform, scene, 'openai', upstream.openai);
  await configure(platform, scene, 'anthropic', upstream.anthropic);
  await configure(platform, scene, 'google', upstream.google);
  return scene;
};

/** A chat of one message. */
export const saying = (content: string, more: Readonly<Record<string, unknown>> = {}) => ({
  model: 'openai/gpt-4o',
  messages: [{ role: 'user', content }],
  ...more,
});

type Json = Answer['body'];

/** The data of server-sent events, parsed. */
export const eventsIn = (text: string): Json[] =>
  text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)));
