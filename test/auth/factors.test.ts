import test from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { bytesOf, codeOf } from './totp.ts';
import { type AppSession, newEmail, password, useAuth } from './auth-scene.ts';

const { app, ask, developer, newProject, platform, project, refresh, signIn, signedUp } = useAuth(test);

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

const enrolled = async (session: AppSession, of: TestProject = project(), name = '') => {
  const body = { factor_type: 'totp', friendly_name: name };
  const answer = await ask('POST', '/factors', { token: session.access_token, body }, of);
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body as { id: string; totp: { secret: string; uri: string; qr_code: string } };
};

const challenged = async (token: string, id: string): Promise<string> =>
  (await ask('POST', `/factors/${id}/challenge`, { token, body: {} })).body.id;

const verify = (token: string, id: string, challenge: string, code: string) =>
  ask('POST', `/factors/${id}/verify`, { token, body: { challenge_id: challenge, code } });

/** A user with a verified factor, in a sign-in with both. */
const withFactor = async () => {
  const session = await signedUp();
  const { id, totp } = await enrolled(session);
  const answer = await verify(
    session.access_token,
    id,
    await challenged(session.access_token, id),
    codeOf(totp.secret),
  );
  if (answer.status !== 200) throw new Error(answer.text);
  return { session, id, secret: totp.secret, raised: answer.body as AppSession };
};

test('supabase-js sets up a factor, signs in with both, and removes it', async (t) => {
  const email = newEmail();
  const { auth } = app();
  await auth.signUp({ email, password });
  const { data: factor, error } = await auth.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone' });
  t.is(error, null);
  if (factor?.type !== 'totp') return t.fail();
  t.regex(factor.totp.qr_code, /^data:image\/svg\+xml;utf-8,<svg[^#%]+<\/svg>/);
  t.regex(factor.totp.uri, /^otpauth:\/\/totp\//);
  t.is((await auth.mfa.getAuthenticatorAssuranceLevel()).data?.nextLevel, 'aal1');
  const set = await auth.mfa.challengeAndVerify({ factorId: factor.id, code: codeOf(factor.totp.secret) });
  t.is(set.error, null);
  t.like((await auth.mfa.getAuthenticatorAssuranceLevel()).data, { currentLevel: 'aal2', nextLevel: 'aal2' });
  const again = app().auth;
  await again.signInWithPassword({ email, password });
  t.like((await again.mfa.getAuthenticatorAssuranceLevel()).data, { currentLevel: 'aal1', nextLevel: 'aal2' });
  t.is((await again.mfa.listFactors()).data?.totp.length, 1);
  t.is((await again.mfa.unenroll({ factorId: factor.id })).error?.code, 'insufficient_aal');
  t.is((await again.updateUser({ password: 'another long password' })).error?.code, 'insufficient_aal');
  const raised = await again.mfa.challengeAndVerify({ factorId: factor.id, code: codeOf(factor.totp.secret, 1) });
  t.is(raised.error, null);
  t.deepEqual(
    claimsOf(raised.data?.access_token ?? '').amr.map(({ method }: { method: string }) => method),
    ['password', 'totp'],
  );
  t.is((await again.refreshSession()).error, null);
  t.is((await again.mfa.getAuthenticatorAssuranceLevel()).data?.currentLevel, 'aal2');
  t.is((await again.mfa.unenroll({ factorId: factor.id })).error, null);
  t.is((await again.mfa.listFactors()).data?.totp.length, 0);
});

test('a code works once, also when it comes five times at once', async (t) => {
  const { session, id, secret } = await withFactor();
  const { body: other } = await signIn(session.user.email);
  const challenge = await challenged(other.access_token, id);
  const code = codeOf(secret, 1);
  const answers = await Promise.all(Array.from({ length: 5 }, () => verify(other.access_token, id, challenge, code)));
  t.is(answers.filter(({ status }) => status === 200).length, 1);
  const { body: third } = await signIn(session.user.email);
  const reused = await verify(third.access_token, id, await challenged(third.access_token, id), code);
  t.deepEqual([reused.status, reused.body.error_code], [422, 'mfa_verification_failed']);
});

test('the first code ends the sign-ins with the password alone', async (t) => {
  const email = newEmail();
  const session = await signedUp(project(), email);
  const { body: elsewhere } = await signIn(email);
  const { id, totp } = await enrolled(session);
  const { body } = await verify(
    session.access_token,
    id,
    await challenged(session.access_token, id),
    codeOf(totp.secret),
  );
  t.is(claimsOf(body.access_token).aal, 'aal2');
  t.is((await refresh(elsewhere.refresh_token)).status, 400);
  t.is((await refresh(body.refresh_token)).status, 200);
});

test('five wrong codes end a challenge, and those of another session or factor are none', async (t) => {
  const { session, id, secret, raised } = await withFactor();
  const { body: other } = await signIn(session.user.email);
  const challenge = await challenged(other.access_token, id);
  const wrong = codeOf(secret) === '000000' ? '111111' : '000000';
  for (let n = 0; n < 5; n += 1) t.is((await verify(other.access_token, id, challenge, wrong)).status, 422);
  const over = await verify(other.access_token, id, challenge, codeOf(secret));
  t.is(over.body.error_code, 'mfa_challenge_expired');
  const fresh = await challenged(other.access_token, id);
  t.is((await verify(raised.access_token, id, fresh, codeOf(secret))).body.error_code, 'mfa_challenge_expired');
  const stranger = await signedUp();
  t.is((await verify(stranger.access_token, id, fresh, codeOf(secret))).status, 422);
  t.is((await ask('POST', `/factors/${id}/challenge`, { token: stranger.access_token, body: {} })).status, 404);
  t.is((await ask('DELETE', `/factors/${id}`, { token: stranger.access_token })).status, 404);
  await useDatabase(platform(), project()).query(
    'auth',
    `update auth.challenges set expires_at = now() - interval '1 second' where id = '${fresh}'`,
  );
  t.is((await verify(other.access_token, id, fresh, codeOf(secret))).body.error_code, 'mfa_challenge_expired');
});

test('a user has ten factors at most, each with a name of its own, and none where they are off', async (t) => {
  const of = await newProject();
  const session = await signedUp(of);
  for (let n = 0; n < 10; n += 1) await enrolled(session, of, `factor ${n}`);
  const enrol = (friendly_name: string) =>
    ask('POST', '/factors', { token: session.access_token, body: { factor_type: 'totp', friendly_name } }, of);
  t.is((await enrol('eleventh')).body.error_code, 'too_many_enrolled_mfa_factors');
  const second = await signedUp(of);
  await enrolled(second, of, 'Phone');
  const same = { token: second.access_token, body: { factor_type: 'totp', friendly_name: 'Phone' } };
  t.is((await ask('POST', '/factors', same, of)).body.error_code, 'mfa_factor_name_conflict');
  for (const body of [{ factor_type: 'phone' }, {}, { factor_type: 'totp', friendly_name: 'x'.repeat(101) }])
    t.is((await ask('POST', '/factors', { token: second.access_token, body }, of)).status, 400);
  const patch = { token: developer().token, body: { mfa: 'off' } };
  await platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, patch);
  t.is((await enrol('Phone')).body.error_code, 'mfa_totp_enroll_not_enabled');
});

test('an administrator removes a factor that was lost, and the audit log says so', async (t) => {
  const { session, id } = await withFactor();
  const { client, db } = platform();
  const path = `/projects/${project().id}/users/${session.user.id}/factors/${id}`;
  t.is((await client.call('DELETE', path, { token: developer().token })).status, 204);
  t.is((await client.call('DELETE', path, { token: developer().token })).status, 404);
  const entries = await db.query(
    `select from audit_entries where target_id = $1 and action = 'end_user.delete_factor'`,
    [session.user.id],
  );
  t.is(entries.length, 1);
  const other = await withFactor();
  const { admin } = app(project(), project().key).auth;
  t.is((await admin.mfa.listFactors({ userId: other.session.user.id })).data?.factors.length, 1);
  t.is((await admin.mfa.deleteFactor({ id: other.id, userId: other.session.user.id })).error, null);
});

test('the secret of a factor is nowhere in the clear', async (t) => {
  const { id, secret } = await withFactor();
  const [row] = await useDatabase(platform(), project()).query(
    'auth',
    `select encode(secret_sealed, 'escape') as text from auth.factors where id = '${id}'`,
  );
  t.false(String(row?.['text']).includes(bytesOf(secret).toString('base64')));
});

test('a project that requires a second factor lets a sign-in without one do nothing but set one up', async (t) => {
  const of = await newProject();
  const path = `/projects/${of.id}/auth/settings`;
  const changed = await platform().client.call('PATCH', path, { token: developer().token, body: { mfa: 'required' } });
  t.is(changed.body.mfa, 'required');
  const session = await signedUp(of);
  const token = session.access_token;
  const rest = (by: string) =>
    platform().client.call('GET', `/p/${of.ref}/v1/rest/things`, { token: by, key: of.publishableKey });
  t.is((await rest(token)).status, 403);
  t.is((await ask('PUT', '/user', { token, body: { data: { a: 1 } } }, of)).body.code, 'insufficient_aal');
  t.is((await ask('GET', '/user', { token }, of)).status, 200);
  const { id, totp } = await enrolled(session, of);
  const challenge = (await ask('POST', `/factors/${id}/challenge`, { token, body: {} }, of)).body.id;
  const body = { challenge_id: challenge, code: codeOf(totp.secret) };
  const full = await ask('POST', `/factors/${id}/verify`, { token, body }, of);
  t.is(full.status, 200, full.text);
  t.is((await rest(full.body.access_token)).status, 404);
  t.is((await ask('PUT', '/user', { token: full.body.access_token, body: { data: { a: 1 } } }, of)).status, 200);
});

test('a link for a forgotten password is not enough where there is a second factor', async (t) => {
  const { session } = await withFactor();
  const body = { type: 'recovery', email: session.user.email };
  const path = `/p/${project().ref}/auth/v1/admin/generate_link`;
  const link = await platform().client.call('POST', path, { key: project().key, body });
  const used = await ask('POST', '/verify', { body: { type: 'recovery', token_hash: link.body.hashed_token } });
  const { access_token: token } = used.body as AppSession;
  const changed = await ask('PUT', '/user', { token, body: { password: 'another long password' } });
  t.deepEqual([changed.status, changed.body.error_code], [403, 'insufficient_aal']);
  t.is((await signIn(session.user.email)).status, 200, 'the password is as it was');
});
