import { signUp } from '../client.ts';
import { type DataProject, apiSpec, createDataProject } from '../data/scene.ts';
import type { Bench } from '../harness.ts';
import type { Server } from '../servers.ts';

export type Pace = 'slow' | 'fast';

export const model = 'gpt-4o-mini';

/** An API and a provider on loopback that a project of the API asks. */
export interface AiScene {
  readonly api: Server;
  readonly upstream: Server;
  readonly project: DataProject;
  /** The token of a user who may do everything in the project. */
  readonly headers: Readonly<Record<string, string>>;
  /** From now on the project's provider answers after 20 ms, or at once. */
  readonly setPace: (pace: Pace) => Promise<void>;
}

const providerKey = 'sk-bench-0123456789abcdef0123456789abcdef';

export const startAiScene = async (bench: Bench): Promise<AiScene> => {
  const upstream = await bench.servers.start({ name: 'ai-upstream', file: 'bench/floors/ai-upstream.ts' });
  const api = await bench.servers.start(apiSpec('api-ai', { PLINTH_EGRESS_ALLOW: '127.0.0.0/8' }));
  const user = await signUp(api.url);
  const project = await createDataProject(api.url, user);
  const setPace = async (pace: Pace): Promise<void> => {
    const body = { provider: 'openai', api_key: providerKey, base_url: `${upstream.url}/${pace}/v1` };
    const response = await fetch(`${api.url}/projects/${project.id}/ai/providers`, {
      method: 'POST',
      headers: user.headers,
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`the provider's key answered ${response.status}: ${await response.text()}`);
  };
  return { api, upstream, project, headers: user.headers, setPace };
};

/** The body of a chat, as OpenAI's clients send it. */
export const chatBody = (stream: boolean, content = 'Say a hundred words.'): string =>
  JSON.stringify({
    model,
    messages: [
      { role: 'system', content: 'You are brief.' },
      { role: 'user', content },
    ],
    temperature: 0.2,
    ...(stream && { stream, stream_options: { include_usage: true } }),
  });
