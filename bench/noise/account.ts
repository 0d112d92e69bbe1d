import { randomBytes } from 'node:crypto';
import { Agent, request } from 'undici';

export type Headers = Readonly<Record<string, string>>;

export interface Call {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly headers?: Headers;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** One account with one project, as a client sees them. */
export interface Account {
  readonly url: string;
  readonly email: string;
  readonly password: string;
  /** Headers of the signed-in user. */
  readonly headers: Headers;
  readonly projectId: string;
  /** Headers of requests with the project's secret key. */
  readonly keyHeaders: Headers;
}

/** Longer than any call of the benchmark should take, so that a client never waits for ever. */
const timeoutMs = 60_000;

const agent = new Agent({ connections: 200, headersTimeout: timeoutMs, bodyTimeout: timeoutMs });

/** @throws when there is no complete answer */
export const call = async (url: string, { method = 'POST', path, headers, body, signal }: Call): Promise<Answer> => {
  const answer = await request(`${url}${path}`, {
    dispatcher: agent,
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body }),
    ...(signal !== undefined && { signal }),
  });
  return { status: answer.statusCode, text: await answer.body.text() };
};

/** @throws {Error} with the answer when it is no success */
export const callOk = async <T>(url: string, of: Omit<Call, 'body'> & { readonly json?: unknown }): Promise<T> => {
  const { json, ...rest } = of;
  const { status, text } = await call(url, { ...rest, ...(json !== undefined && { body: JSON.stringify(json) }) });
  if (status >= 300) throw new Error(`${of.method ?? 'POST'} ${of.path} answered ${status}: ${text.slice(0, 500)}`);
  return JSON.parse(text) as T;
};

export const uniqueName = (): string => `n_${randomBytes(6).toString('hex')}`;

export type NoisePlan = 'free' | 'pro';

interface Made {
  readonly id: string;
  readonly api_key: string;
}

export const createProject = (url: string, headers: Headers, plan: NoisePlan): Promise<Made> => {
  const slug = uniqueName();
  return callOk<Made>(url, { path: '/projects', headers, json: { name: slug, slug, plan } });
};

/** A new user with a new project. */
export const openAccount = async (url: string, plan: NoisePlan): Promise<Account> => {
  const credentials = { email: `${uniqueName()}@example.com`, password: randomBytes(12).toString('hex') };
  const signed = await callOk<{ access_token: string }>(url, { path: '/auth/signup', json: credentials });
  const headers = { authorization: `Bearer ${signed.access_token}` };
  const { id, api_key } = await createProject(url, headers, plan);
  return { url, ...credentials, headers, projectId: id, keyHeaders: { apikey: api_key } };
};

/** Runs statements one by one at the SQL console. */
export const runSql = async ({ url, headers, projectId }: Account, ...statements: readonly string[]): Promise<void> => {
  for (const sql of statements) await callOk(url, { path: `/projects/${projectId}/db/query`, headers, json: { sql } });
};

export interface DeployedFunction {
  readonly id: string;
  readonly slug: string;
}

export const deployFunction = (
  { url, headers }: Pick<Account, 'url' | 'headers'>,
  projectId: string,
  code: string,
  more: { readonly timeout_ms?: number } = {},
): Promise<DeployedFunction> =>
  callOk(url, {
    path: `/projects/${projectId}/functions`,
    headers,
    json: { name: uniqueName(), language: 'javascript', code, ...more },
  });

export const addWebhook = async (
  { url, headers, projectId }: Account,
  to: string,
  events: readonly string[],
): Promise<void> => {
  await callOk(url, { path: `/projects/${projectId}/integrations/webhooks`, headers, json: { url: to, events } });
};

/** From now on the project asks the model server at that address, which speaks OpenAI's dialect. */
export const useModels = async ({ url, headers, projectId }: Account, baseUrl: string): Promise<void> => {
  const json = { provider: 'openai', api_key: 'sk-noise-0123456789abcdef0123456789abcdef', base_url: baseUrl };
  await callOk(url, { path: `/projects/${projectId}/ai/providers`, headers, json });
};
