import test from 'ava';
import { useAuth } from '#test/auth/auth-scene.ts';
import { newEmail, newPkce, password, redirectUri, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test, { settings: { PLINTH_BASE_URL: 'https://plinth.example' } }));
const { ask, newClient, platform, project } = scene;

const cookiesOf = (answer: Response): readonly string[] => answer.headers.getSetCookie();

/** The cookies of answers as a browser sends them back. */
const headerOf = (cookies: readonly string[]): string => cookies.map((cookie) => cookie.split(';')[0]).join('; ');

test('cookies go over TLS alone, to this project alone, with no form of another site, and to no script', async (t) => {
  const client = await newClient();
  const email = newEmail();
  await ask('POST', '/signup', { body: { email, password } });
  const path = `/oauth/${project().id}`;
  const query = new URLSearchParams({
    client_id: client.client_id,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: 'openid',
    code_challenge: newPkce().challenge,
    code_challenge_method: 'S256',
  });
  const open = (address: string, cookie = '', form?: Record<string, string>) =>
    fetch(platform().base + new URL(address, 'https://plinth.example').pathname, {
      redirect: 'manual',
      headers: { cookie },
      ...(form && { method: 'POST', body: new URLSearchParams(form) }),
    });
  const started = await fetch(`${platform().base}${path}/authorize?${query.toString()}`, { redirect: 'manual' });
  t.is(started.status, 303);
  const page = started.headers.get('location') ?? '';
  const cookie = headerOf(cookiesOf(started));
  const text = await (await open(page, cookie)).text();
  const form = /name="form" value="([^"]+)"/.exec(text)?.[1] ?? '';
  const signedIn = await open(`${page}/login`, cookie, { form, email, password });
  t.is(signedIn.status, 303, 'not a redirect that sends the password on');
  const next = await open(signedIn.headers.get('location') ?? '', cookie);
  t.is(next.status, 303);
  const all = [started, next].flatMap(cookiesOf).filter((one) => !one.includes('1970'));
  t.true(
    all.some((one) => one.startsWith('_session=')),
    all.join('\n'),
  );
  t.true(
    all.some((one) => one.startsWith('_interaction=')),
    all.join('\n'),
  );
  for (const one of all) {
    t.regex(one, /; *httponly/i);
    t.regex(one, /; *secure/i);
    t.regex(one, /; *samesite=lax/i);
    t.regex(one, new RegExp(`; *path=${path}`, 'i'));
    t.notRegex(one, /; *domain=/i);
  }
});
