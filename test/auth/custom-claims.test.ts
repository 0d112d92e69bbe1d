import test from 'ava';
import { decodeJwt } from 'jose';
import type { TestProject } from '#test/support/client.ts';
import { useOAuth } from '../oauth/oauth-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

// One after the other: a claims function must answer within 2 s, and fifteen cold starts at once take longer.
const scene = useOAuth(test, useAuth(test, {}));
const { ask, developer, newProject, platform, refresh, signIn, signedUp, newClient, tokensFor, codeFor, exchange } =
  scene;

const settings = (of: TestProject, body: object) =>
  platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, { token: developer().token, body });

/** A project with a user, whose tokens get their claims from this code. */
const withFunction = async (code: string) => {
  const of = await newProject();
  const session = await signedUp(of);
  const fn = await platform().client.deploy(developer(), of, code);
  const { status, text } = await settings(of, { custom_claims_function_id: fn.id });
  if (status !== 200) throw new Error(text);
  return { of, session, fn };
};

const adds = `export const handler = ({ user, claims }) =>
  ({ claims: { ...claims, team: user.user_metadata.team ?? 'none', role: 'service_role', sub: 'root', aal: 'aal2' } });`;

test.serial('a function of the project adds claims, and cannot set those that the platform sets', async (t) => {
  const { of, session } = await withFunction(adds);
  const { status, body } = await signIn(session.user.email, password, of);
  t.is(status, 200);
  const claims = decodeJwt(body.access_token);
  t.like(claims, { team: 'none', role: 'authenticated', sub: session.user.id, aal: 'aal1' });
  const next = await refresh(body.refresh_token, of);
  t.is(decodeJwt(next.body.access_token)['team'], 'none');
  t.is((await ask('GET', '/user', { token: body.access_token }, of)).status, 200);
});

test.serial('claims that the function leaves out are left out', async (t) => {
  const { of, session } = await withFunction(`export const handler = () => ({ claims: { plan: 'gold' } });`);
  const claims = decodeJwt((await signIn(session.user.email, password, of)).body.access_token);
  t.is(claims['plan'], 'gold');
  t.is(claims['email'], undefined);
  t.is(claims.sub, session.user.id);
});

for (const [what, code] of Object.entries({
  throws: `export const handler = () => { throw new Error('no'); };`,
  'answers nothing': `export const handler = () => null;`,
  'answers claims that are none': `export const handler = () => ({ claims: [1] });`,
  'answers far too much': `export const handler = () => ({ claims: { much: 'x'.repeat(100000) } });`,
  'takes too long': `export const handler = () => new Promise((resolve) => setTimeout(resolve, 20000));`,
})) {
  test.serial(`a function that ${what} refuses the sign-in, and begins none`, async (t) => {
    const { of, session } = await withFunction(code);
    const { status, body } = await signIn(session.user.email, password, of);
    t.true(status >= 400 && status < 500, JSON.stringify(body));
    const sessions = `/projects/${of.id}/users/${session.user.id}/sessions`;
    const listed = await platform().client.call('GET', sessions, { token: developer().token });
    t.is(listed.body.sessions.length, 1);
    t.is((await settings(of, { custom_claims_function_id: null })).status, 200);
    t.is((await signIn(session.user.email, password, of)).status, 200);
  });
}

test.serial('a function of another project, and one that is deleted, are refused', async (t) => {
  const { of, session, fn } = await withFunction(adds);
  const other = await newProject();
  t.is((await settings(other, { custom_claims_function_id: fn.id })).status, 400);
  t.is((await settings(other, { custom_claims_function_id: crypto.randomUUID() })).status, 400);
  await platform().client.call('DELETE', `/projects/${of.id}/functions/${fn.id}`, { token: developer().token });
  t.is((await signIn(session.user.email, password, of)).status, 422);
});

test.serial('claims that are too large for a header are refused, for clients, too', async (t) => {
  const { of, session } = await withFunction(`export const handler = () => ({ claims: { much: 'x'.repeat(10000) } });`);
  t.is((await signIn(session.user.email, password, of)).body.code, 'validation_failed');
  const client = await newClient({}, of);
  const { code, verifier } = await codeFor(client, session.user.email, {}, of);
  t.is((await exchange(client, { code, verifier }, {}, of)).status, 400);
});

test.serial('tokens of clients get their claims from it, too', async (t) => {
  const { of, session } = await withFunction(adds);
  const client = await newClient({}, of);
  const tokens = await tokensFor(client, session.user.email, {}, of);
  t.like(decodeJwt(tokens.access_token), { team: 'none', role: 'authenticated', client_id: client.client_id });
  const { code, verifier } = await codeFor(client, session.user.email, {}, of);
  const fn = await platform().client.deploy(developer(), of, `export const handler = () => null;`);
  await settings(of, { custom_claims_function_id: fn.id });
  const refused = await exchange(client, { code, verifier }, {}, of);
  t.deepEqual([refused.status, refused.body.error], [400, 'access_denied']);
  t.is((await signIn(newEmail(), password, of)).status, 400);
});

test.serial('a function is tried for a user: what it may not set is named, and nobody signs in', async (t) => {
  const { of, session, fn } = await withFunction(adds);
  await settings(of, { custom_claims_function_id: null });
  const { client } = platform();
  const path = `/projects/${of.id}/auth/settings/claims/test`;
  const tried = (body: object) => client.call('POST', path, { token: developer().token, body });
  const { status, body, text } = await tried({ function_id: fn.id, user_id: session.user.id });
  t.is(status, 200, text);
  t.like(body.claims, { team: 'none', role: 'authenticated', sub: session.user.id, aal: 'aal1' });
  t.deepEqual(body.ignored.toSorted(), ['aal', 'role', 'sub']);
  t.is(body.error, null);
  const sessions = `/projects/${of.id}/users/${session.user.id}/sessions`;
  t.is((await client.call('GET', sessions, { token: developer().token })).body.sessions.length, 1);
  const none = crypto.randomUUID();
  t.is((await tried({ function_id: none, user_id: session.user.id })).body.details[0].path, 'function_id');
  t.is((await tried({ function_id: fn.id, user_id: none })).status, 404);
});

for (const [what, { code, error }] of Object.entries({
  throws: { code: `export const handler = () => { throw new Error('no team'); };`, error: /failed.*no team/ },
  'answers nothing': { code: `export const handler = () => null;`, error: /did not answer claims/ },
  'takes too long': {
    code: `export const handler = () => new Promise((resolve) => setTimeout(resolve, 20000));`,
    error: /took too long/,
  },
  'answers too much': {
    code: `export const handler = () => ({ claims: { much: 'x'.repeat(10000) } });`,
    error: /too large/,
  },
})) {
  test.serial(`a trial of a function that ${what} says that it would keep users out`, async (t) => {
    const { of, session, fn } = await withFunction(code);
    const { status, body, text } = await platform().client.call(
      'POST',
      `/projects/${of.id}/auth/settings/claims/test`,
      { token: developer().token, body: { function_id: fn.id, user_id: session.user.id } },
    );
    t.is(status, 200, text);
    t.is(body.claims, null);
    t.regex(body.error, error);
  });
}
