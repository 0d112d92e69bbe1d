import { createHash, randomBytes } from 'node:crypto';
import type { TestFn } from 'ava';
import { type AuthScene, newEmail, password } from '#test/auth/auth-scene.ts';
import type { Answer, TestProject } from '#test/support/client.ts';
import { Browser, type Page } from './browser.ts';

interface TestClient {
  readonly client_id: string;
  readonly client_secret: string | null;
  readonly redirect_uris: readonly string[];
}

export const redirectUri = 'https://app.example.com/callback';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** A verifier and its challenge. */
export const newPkce = (): { verifier: string; challenge: string } => {
  const verifier = randomBytes(32).toString('base64url');
  return { verifier, challenge: sha256(verifier) };
};

interface Started {
  readonly browser: Browser;
  readonly verifier: string;
  readonly page: Page;
}

/** Parameters of a request beside those that every one has; undefined: left out. */
type Params = Readonly<Record<string, string | undefined>>;

export interface OAuthScene extends AuthScene {
  readonly issuer: (of?: TestProject) => string;
  readonly newClient: (fields?: object, of?: TestProject) => Promise<TestClient>;
  /** Asks for a sign-in; the page that comes, or where it leads to. */
  readonly authorize: (client: TestClient, params?: Params, browser?: Browser, of?: TestProject) => Promise<Started>;
  /** Signs in on the page and allows what is asked for; the address with the code. */
  readonly signInAt: (started: Started, email: string, given?: string) => Promise<URL>;
  /** A code of a new sign-in. */
  readonly codeFor: (
    client: TestClient,
    email: string,
    params?: Params,
    of?: TestProject,
  ) => Promise<{ code: string; verifier: string; browser: Browser; url: URL }>;
  /** Calls the provider as a client does, its secret in the form. */
  readonly post: (
    path: string,
    client: TestClient | null,
    fields: Params,
    options?: { readonly of?: TestProject; readonly headers?: Readonly<Record<string, string>> },
  ) => Promise<Answer>;
  readonly exchange: (
    client: TestClient,
    obtained: { readonly code: string; readonly verifier: string },
    fields?: Params,
    of?: TestProject,
  ) => Promise<Answer>;
  /** The tokens of a new sign-in. */
  readonly tokensFor: (client: TestClient, email: string, params?: Params, of?: TestProject) => Promise<Answer['body']>;
  readonly userinfo: (token: string, of?: TestProject) => Promise<Answer>;
}

const given = (fields: Params): Record<string, string> =>
  Object.fromEntries(Object.entries(fields).filter((field): field is [string, string] => field[1] !== undefined));

const json = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const signInAt: OAuthScene['signInAt'] = async ({ browser, page }, email, secret = password) => {
  let next = await browser.submit(page, '/login', { email, password: secret });
  if (next.text.includes('/consent"')) next = await browser.submit(next, '/consent');
  return new URL(next.url);
};

/** The OpenID provider of a project, its clients, and browsers. */
export const useOAuth = (_test: TestFn, scene: AuthScene): OAuthScene => {
  const { platform, project, developer } = scene;
  const issuer = (of = project()): string => `${platform().base}/oauth/${of.id}`;

  const newClient: OAuthScene['newClient'] = async (fields = {}, of = project()) => {
    const body = { name: 'The Shop', redirect_uris: [redirectUri], ...fields };
    const path = `/projects/${of.id}/oauth/clients`;
    const answer = await platform().client.call('POST', path, { token: developer().token, body });
    if (answer.status !== 201) throw new Error(answer.text);
    return answer.body;
  };

  const authorize: OAuthScene['authorize'] = async (
    client,
    params = {},
    browser = new Browser(platform().base),
    of = project(),
  ) => {
    const { verifier, challenge } = newPkce();
    const query = given({
      client_id: client.client_id,
      redirect_uri: client.redirect_uris[0],
      response_type: 'code',
      scope: 'openid profile email',
      state: 'some state',
      code_challenge: challenge,
      code_challenge_method: 'S256',
      ...params,
    });
    const page = await browser.open(`${issuer(of)}/authorize?${new URLSearchParams(query).toString()}`);
    return { browser, verifier, page };
  };

  const codeFor: OAuthScene['codeFor'] = async (client, email, params = {}, of = project()) => {
    const started = await authorize(client, params, undefined, of);
    const url = await signInAt(started, email);
    const code = url.searchParams.get('code');
    if (code === null) throw new Error(`there is no code in ${url.href}`);
    return { code, verifier: started.verifier, browser: started.browser, url };
  };

  const post: OAuthScene['post'] = async (path, client, fields, { of = project(), headers = {} } = {}) => {
    const form = given({
      ...(client && { client_id: client.client_id }),
      ...(client?.client_secret && { client_secret: client.client_secret }),
      ...fields,
    });
    const response = await fetch(issuer(of) + path, { method: 'POST', headers, body: new URLSearchParams(form) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: json(text) };
  };

  const exchange: OAuthScene['exchange'] = (client, { code, verifier }, fields = {}, of = project()) =>
    post(
      '/token',
      client,
      {
        grant_type: 'authorization_code',
        code,
        code_verifier: verifier,
        redirect_uri: client.redirect_uris[0],
        ...fields,
      },
      { of },
    );

  return {
    ...scene,
    issuer,
    newClient,
    authorize,
    signInAt,
    codeFor,
    post,
    exchange,
    tokensFor: async (client, email, params = {}, of = project()) => {
      const { code, verifier } = await codeFor(client, email, params, of);
      const { status, body, text } = await exchange(client, { code, verifier }, {}, of);
      if (status !== 200) throw new Error(text);
      return body;
    },
    userinfo: (token, of = project()) => platform().client.call('GET', `/oauth/${of.id}/userinfo`, { token }),
  };
};

export { newEmail, password };
