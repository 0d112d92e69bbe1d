import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { type ProviderName, providerFacts } from '#domain/ai/providers/providers.ts';
import type { AiUpstream } from './ai-upstream.ts';
import type { TestProject, TestUser } from './client.ts';
import type { TestPlatform } from './platform.ts';

export interface AiProject {
  readonly user: TestUser;
  readonly project: TestProject;
  /** Headers of its management API. */
  readonly path: string;
  /** The settings of its providers, by name. */
  readonly keys: Readonly<Partial<Record<ProviderName, string>>>;
}

/** A project with keys for providers that an upstream of the test plays. */
export const createAiProject = async (
  { client }: Pick<TestPlatform, 'client'>,
  upstream: AiUpstream,
  keys: AiProject['keys'] = { openai: 'sk-proj-of-the-test-0001', anthropic: 'sk-ant-of-the-test-0002' },
): Promise<AiProject> => {
  const user = await client.signUp();
  const project = await client.createProject(user);
  const path = `/projects/${project.id}`;
  for (const [provider, api_key] of Object.entries(keys)) {
    const base_url = upstream[providerFacts[provider as ProviderName].dialect];
    const answer = await client.call('POST', `${path}/ai/providers`, {
      token: user.token,
      body: { provider, api_key, base_url },
    });
    if (answer.status !== 201) throw new Error(`adding a key answered ${answer.status}: ${answer.text}`);
  }
  return { user, project, path, keys };
};

export interface PostedEvents {
  readonly status: number;
  readonly headers: Headers;
  /** The text after each `data:`, as far as it has come; for an answer that is no stream, its body. */
  readonly events: readonly any[]; // oxlint-disable-line typescript/no-explicit-any -- tests look into events of every shape
  /** Resolves when the server ends the answer, or the connection breaks. */
  readonly end: Promise<void>;
  readonly close: () => void;
}

/** Posts and listens to the events of the answer. */
export const postForEvents = async (url: string, token: string, body: unknown): Promise<PostedEvents> => {
  const aborter = new AbortController();
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: aborter.signal,
  });
  const events: unknown[] = [];
  const read = async (): Promise<void> => {
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
      events.push(await response.json());
      return;
    }
    if (response.body === null) return;
    for await (const line of createInterface({ input: Readable.fromWeb(response.body) })) {
      if (line.startsWith('data: ')) events.push(JSON.parse(line.slice(6)));
    }
  };
  return {
    status: response.status,
    headers: response.headers,
    events,
    end: read().catch(() => undefined),
    close: () => aborter.abort(),
  };
};
