import { randomBytes } from 'node:crypto';
import { causeOf } from './failed-requests.ts';

export interface CallOptions {
  /** An access token, sent as Bearer. */
  readonly token?: string | undefined;
  /** An API key, sent as apikey. */
  readonly key?: string | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is. */
  readonly raw?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into answers of every shape
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const headersOf = ({ token, key, body, raw, headers }: CallOptions): Record<string, string> => ({
  ...(token !== undefined && { authorization: `Bearer ${token}` }),
  ...(key !== undefined && { apikey: key }),
  ...((body !== undefined || raw !== undefined) && { 'content-type': 'application/json' }),
  ...headers,
});

export interface TestUser {
  readonly id: string;
  readonly email: string;
  readonly password: string;
  readonly token: string;
  readonly refreshToken: string;
}

export interface TestProject {
  readonly id: string;
  readonly ref: string;
  readonly slug: string;
  readonly orgId: string;
  readonly dbName: string;
  readonly key: string;
  readonly publishableKey: string;
}

export interface TestFunction {
  readonly id: string;
  readonly slug: string;
}

/** The actions of a user of the platform, in few words. */
export interface Client {
  readonly call: (method: string, path: string, options?: CallOptions) => Promise<Answer>;
  readonly signUp: (email?: string) => Promise<TestUser>;
  readonly createProject: (user: TestUser, body?: Readonly<Record<string, unknown>>) => Promise<TestProject>;
  readonly deploy: (
    user: TestUser,
    project: TestProject,
    code: string,
    fields?: Readonly<Record<string, unknown>>,
  ) => Promise<TestFunction>;
  readonly invoke: (user: TestUser, project: TestProject, fn: TestFunction, payload: unknown) => Promise<Answer>;
}

export const uniqueName = (prefix: string): string => `${prefix}_${randomBytes(5).toString('hex')}`;

const expectStatus = (answer: Answer, status: number, what: string): Answer => {
  if (answer.status === status) return answer;
  throw new Error(`${what} answered ${answer.status}: ${answer.text}${causeOf(answer.body?.request_id)}`);
};

export const createClient = (base: string): Client => {
  const call: Client['call'] = async (method, path, options = {}) => {
    const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
    const response = await fetch(`${base}${path}`, {
      method,
      headers: headersOf(options),
      redirect: 'manual',
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: parse(text) };
  };

  return {
    call,
    signUp: async (email = `${uniqueName('user')}@example.com`) => {
      const password = 'correct horse battery';
      const answer = await call('POST', '/auth/signup', { body: { email, password } });
      const { body } = expectStatus(answer, 201, 'sign-up');
      return { id: body.user.id, email, password, token: body.access_token, refreshToken: body.refresh_token };
    },
    createProject: async (user, fields = {}) => {
      const slug = uniqueName('p');
      const answer = await call('POST', '/projects', { token: user.token, body: { name: slug, slug, ...fields } });
      const { body } = expectStatus(answer, 201, 'creating a project');
      return {
        id: body.id,
        ref: body.ref,
        slug: body.slug,
        orgId: body.org_id,
        dbName: body.db_name,
        key: body.api_key,
        publishableKey: body.publishable_key,
      };
    },
    deploy: async (user, project, code, fields = {}) => {
      const body = { name: uniqueName('fn'), language: 'javascript', code, ...fields };
      const answer = await call('POST', `/projects/${project.id}/functions`, { token: user.token, body });
      expectStatus(answer, 201, 'deploying a function');
      return { id: answer.body.id, slug: answer.body.slug };
    },
    invoke: (user, project, fn, payload) =>
      call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, { token: user.token, body: { payload } }),
  };
};
