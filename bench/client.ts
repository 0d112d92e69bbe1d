import { randomBytes } from 'node:crypto';

export interface BenchUser {
  readonly headers: Readonly<Record<string, string>>;
}

const post = async <T>(url: string, headers: Readonly<Record<string, string>>, body: unknown): Promise<T> => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (response.status !== 201) throw new Error(`POST ${url} answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
};

const uniqueSlug = (): string => `b_${randomBytes(6).toString('hex')}`;

/** A new user with the headers of its calls. */
export const signUp = async (url: string): Promise<BenchUser> => {
  const account = { email: `${uniqueSlug()}@example.com`, password: randomBytes(12).toString('hex') };
  const { access_token } = await post<{ access_token: string }>(`${url}/auth/signup`, {}, account);
  return { headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' } };
};

/** A project on the plan without limits: what is measured is the platform, not its plans. */
export const projectBody = (): Record<string, string> => {
  const slug = uniqueSlug();
  return { name: slug, slug, plan: 'enterprise' };
};

/** Answers the project's id. */
export const createProject = async (url: string, user: BenchUser): Promise<string> =>
  (await post<{ id: string }>(`${url}/projects`, user.headers, projectBody())).id;

/** Deploys a JavaScript function; answers its id. */
export const deploy = async (url: string, user: BenchUser, projectId: string, code: string): Promise<string> => {
  const body = { name: uniqueSlug(), language: 'javascript', code };
  return (await post<{ id: string }>(`${url}/projects/${projectId}/functions`, user.headers, body)).id;
};
