import type { ProviderName } from '#domain/ai/providers/providers.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** A project of its own, as its owner sees it. */
export interface AiScene {
  readonly user: TestUser;
  readonly project: TestProject;
  /** A call below `/projects/{id}/ai`. */
  readonly ask: (method: string, path: string, body?: unknown) => Promise<Answer>;
}

export const aiScene = async ({ client }: TestPlatform): Promise<AiScene> => {
  const user = await client.signUp();
  const project = await client.createProject(user);
  return {
    user,
    project,
    ask: (method, path, body) =>
      client.call(method, `/projects/${project.id}/ai${path}`, {
        token: user.token,
        ...(body !== undefined && { body }),
      }),
  };
};

/** Gives a project a key for a provider that is played at `baseUrl`. */
export const addKey = async (
  { ask }: AiScene,
  provider: ProviderName,
  baseUrl: string | null,
  apiKey = 'sk-a-key-of-a-test-0000',
): Promise<Answer> => {
  const answer = await ask('POST', '/providers', { provider, api_key: apiKey, base_url: baseUrl });
  if (answer.status > 201) throw new Error(answer.text);
  return answer;
};
