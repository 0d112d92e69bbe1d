import type { TestProject } from '#test/support/client.ts';
import { Browser } from '../oauth/browser.ts';
import type { AuthScene } from './auth-scene.ts';
import { startIssuer } from './fake-issuer.ts';

export const site = 'https://app.example.com';
export const landing = `${site}/landed`;

type Upstream = Awaited<ReturnType<typeof startIssuer>>;

export const tokensIn = (url: URL): URLSearchParams => new URLSearchParams(url.hash.slice(1));

/** Projects whose users sign in with a provider of the test's own. */
export const useUpstream = ({ ask, developer, newProject, platform }: AuthScene) => {
  const manage = (of: TestProject, method: string, path: string, body?: object) =>
    platform().client.call(method, `/projects/${of.id}/auth${path}`, {
      token: developer().token,
      ...(body && { body }),
    });

  const withSite = async (settings: object = {}) => {
    const of = await newProject();
    await manage(of, 'PATCH', '/settings', { site_url: site, redirect_allow_list: [landing], ...settings });
    return of;
  };

  const callbackOf = (of: TestProject): string => `${platform().base}/p/${of.ref}/auth/v1/callback`;

  const withIssuer = async (fields: object = {}, settings: object = {}) => {
    const of = await withSite(settings);
    const upstream = await startIssuer('the client');
    const body = { client_id: 'the client', client_secret: 'the secret', issuer: upstream.url, ...fields };
    const put = await manage(of, 'PUT', '/providers/company', body);
    if (put.status !== 200) throw new Error(put.text);
    return { of, upstream };
  };

  /** Sends a browser to the provider; where its answer leads to. */
  const roundTrip = async (
    of: TestProject,
    upstream: Upstream,
    claims: Record<string, unknown> = {},
    { change = (url: URL) => url, more = '' }: { change?: (url: URL) => URL; more?: string } = {},
  ) => {
    const browser = new Browser(platform().base);
    const begin = `${platform().base}/p/${of.ref}/auth/v1/authorize?provider=company&redirect_to=${landing}${more}`;
    const sent = await browser.request(begin);
    if (sent.status !== 303) throw new Error(sent.text.slice(0, 500));
    const to = new URL(sent.headers.get('location') ?? 'http://none');
    upstream.nonce = to.searchParams.get('nonce') ?? '';
    upstream.claims = claims;
    const back = new URL(callbackOf(of));
    back.searchParams.set('state', to.searchParams.get('state') ?? '');
    back.searchParams.set('code', 'a code');
    const page = await browser.request(change(back).href);
    return { page, to, browser, back, at: new URL(page.headers.get('location') ?? 'http://none') };
  };

  /** Asks for another provider for the user of a token. */
  const startLink = (of: TestProject, token: string) =>
    ask('GET', `/user/identities/authorize?provider=company&redirect_to=${landing}`, { token }, of);

  /** Comes back from there; where it leads to. */
  const finishLink = async (of: TestProject, upstream: Upstream, address: string): Promise<URL> => {
    const to = new URL(address);
    upstream.nonce = to.searchParams.get('nonce') ?? '';
    const back = `${callbackOf(of)}?code=x&state=${to.searchParams.get('state') ?? ''}`;
    const page = await fetch(back, { redirect: 'manual' });
    return new URL(page.headers.get('location') ?? 'http://none');
  };

  const userOf = async (of: TestProject, url: URL) =>
    (await ask('GET', '/user', { token: tokensIn(url).get('access_token') ?? '' }, of)).body;

  return { manage, withSite, callbackOf, withIssuer, roundTrip, startLink, finishLink, userOf };
};
