import test from 'ava';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { ask, developer, newProject, platform } = useAuth(test);

const settingsOf = async () => {
  const of = await newProject();
  const path = `/projects/${of.id}/auth/settings`;
  const { client } = platform();
  return {
    of,
    get: (token = developer().token) => client.call('GET', path, { token }),
    patch: (body: unknown, token = developer().token) => client.call('PATCH', path, { token, body }),
  };
};

test('settings begin with the defaults, and a change of one keeps the others', async (t) => {
  const { get, patch } = await settingsOf();
  const day = 86_400;
  t.deepEqual((await get()).body, {
    signup: 'open',
    password_min: 8,
    breached_passwords: null,
    confirm_email: false,
    site_url: null,
    redirect_allow_list: [],
    anonymous: false,
    mfa: 'optional',
    custom_claims_function_id: null,
    captcha: null,
    branding: { logo_url: null, color: null },
    session: { idle_s: 30 * day, absolute_s: 90 * day, single: false },
    version: 0,
  });
  const { status, body } = await patch({ session: { idle_s: 3600 } });
  t.is(status, 200);
  t.deepEqual(body.session, { idle_s: 3600, absolute_s: 90 * day, single: false });
  t.is((await patch({ password_min: 12 })).body.session.idle_s, 3600);
  t.like((await get()).body, { signup: 'open', password_min: 12, session: body.session });
});

for (const [what, body] of Object.entries({
  'an unknown field': { sign_up: 'open' },
  'an unknown way to sign up': { signup: 'sometimes' },
  'a password of five': { password_min: 5 },
  'a lifetime of a second': { session: { idle_s: 1 } },
  'a lifetime that is no number': { session: { idle_s: '3600' } },
  'null for a group': { session: null },
  'a site without TLS': { site_url: 'http://shop.example/' },
  'a site that is a script': { site_url: 'javascript:alert(1)' },
  'an address with a user': { redirect_allow_list: ['https://shop.example@evil.example/'] },
  'a host with a wildcard': { redirect_allow_list: ['https://*.example/'] },
  'a wildcard for the rest in the middle': { redirect_allow_list: ['https://shop.example/**/in'] },
}))
  test(`${what} is refused, and changes nothing`, async (t) => {
    const { get, patch } = await settingsOf();
    const before = (await get()).body;
    const refused = await patch(body);
    t.is(refused.status, 400);
    t.is(refused.body.code, 'validation_failed');
    t.deepEqual((await get()).body, before);
  });

test('a stranger sees no settings, and a change is in the audit log', async (t) => {
  const { of, get, patch } = await settingsOf();
  const stranger = await platform().client.signUp();
  t.is((await get(stranger.token)).status, 404);
  t.is((await patch({ signup: 'closed' }, stranger.token)).status, 404);
  await patch({ signup: 'closed' });
  const entries = await platform().db.query(
    `select action, after -> 'settings' ->> 'signup' as signup from audit_entries
     where project_id = $1 and target_type = 'auth_settings'`,
    [of.id],
  );
  t.deepEqual(entries, [{ action: 'auth_settings.create', signup: 'closed' }]);
});

test('a change is seen by the next sign-up of every process', async (t) => {
  const { of, patch } = await settingsOf();
  const other = await platform().startApi();
  const signUp = (base: string) =>
    fetch(`${base}/p/${of.ref}/auth/v1/signup`, {
      method: 'POST',
      headers: { apikey: of.publishableKey, 'content-type': 'application/json' },
      body: JSON.stringify({ email: newEmail(), password }),
    });
  t.is((await signUp(other)).status, 200);
  await patch({ password_min: 40 });
  t.is((await ask('POST', '/signup', { body: { email: newEmail(), password } }, of)).status, 422);
  const deadline = Date.now() + 1000;
  let last = 200;
  while (last === 200 && Date.now() < deadline) last = (await signUp(other)).status;
  t.is(last, 422);
});

test('a change that is meant for another version is refused, and overwrites nothing', async (t) => {
  const { of, get, patch } = await settingsOf();
  const patchOf = (version: number, body: object) =>
    platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, {
      token: developer().token,
      headers: { 'if-match': `"${version}"` },
      body,
    });
  const theirs = await patchOf(0, { password_min: 10 });
  t.is(theirs.status, 200, theirs.text);
  t.is(theirs.body.version, 1);
  const mine = await patchOf(0, { password_min: 20 });
  t.is(mine.status, 412);
  t.is(mine.body.code, 'precondition_failed');
  t.like((await get()).body, { password_min: 10, version: 1 });
  t.is((await patch({ anonymous: true })).body.version, 2);
  t.is((await patchOf(2, { password_min: 20 })).body.version, 3);
});
