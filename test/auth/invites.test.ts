import test from 'ava';
import { newEmail, password } from './auth-scene.ts';
import { useAuthMails } from './mail-scene.ts';

const { app, ask, developer, mailProject, mailsTo, platform, signIn, signedUp } = useAuthMails(test);

test('an invited user confirms the address by the mail, signs in and chooses a password', async (t) => {
  const of = await mailProject({ signup: 'invite' });
  const email = newEmail();
  const invited = await app(of, of.key).auth.admin.inviteUserByEmail(email, { data: { name: 'Ada' } });
  t.is(invited.error, null);
  t.truthy(invited.data.user?.invited_at);
  t.is(invited.data.user?.email_confirmed_at ?? null, null);
  const [mail] = await mailsTo(email);
  t.regex(mail?.subject ?? '', /invited/);
  const { auth } = app(of);
  const used = await auth.verifyOtp({ token_hash: mail?.token ?? '', type: 'invite' });
  t.is(used.error, null);
  t.deepEqual(used.data.user?.user_metadata, { name: 'Ada' });
  t.is((await auth.updateUser({ password })).error, null);
  t.is((await signIn(email, password, of)).status, 200);
});

test('a known address is not invited, and a publishable key invites nobody', async (t) => {
  const of = await mailProject();
  const { user } = await signedUp(of);
  const known = await app(of, of.key).auth.admin.inviteUserByEmail(user.email);
  t.is(known.error?.code, 'email_exists');
  t.is((await ask('POST', '/invite', { body: { email: newEmail() } }, of)).status, 403);
  t.is((await ask('POST', '/admin/generate_link', { body: { type: 'recovery', email: user.email } }, of)).status, 403);
});

test('links of every kind are handed out without a mail, and do what their mail would', async (t) => {
  const of = await mailProject();
  const { admin } = app(of, of.key).auth;
  const email = newEmail();
  const up = await admin.generateLink({ type: 'signup', email, password });
  t.is(up.error, null);
  t.is(up.data.user?.email, email);
  t.regex(up.data.properties?.action_link ?? '', /\/auth\/v1\/verify\?type=signup&token=/);
  const verify = (type: string, token_hash: string | undefined) =>
    ask('POST', '/verify', { body: { type, token_hash } }, of);
  t.is((await verify('signup', up.data.properties?.hashed_token)).status, 200);
  for (const type of ['magiclink', 'recovery'] as const) {
    const { data } = await admin.generateLink({ type, email });
    t.is((await verify(type, data.properties?.hashed_token)).body.user.email, email, type);
  }
  const otp = await admin.generateLink({ type: 'magiclink', email });
  const { auth } = app(of);
  t.is((await auth.verifyOtp({ email, token: otp.data.properties?.email_otp ?? '', type: 'email' })).error, null);
  const unknown = await admin.generateLink({ type: 'recovery', email: newEmail() });
  t.is(unknown.error?.code, 'user_not_found');
  const again = await admin.generateLink({ type: 'signup', email, password });
  t.is(again.error?.code, 'email_exists');
  const mails = await platform().db.query('select from emails where project_id = $1', [of.id]);
  t.is(mails.length, 0);
});

test('links to both addresses that are handed out change the address', async (t) => {
  const of = await mailProject();
  const { admin } = app(of, of.key).auth;
  const email = newEmail();
  await signedUp(of, email);
  const verify = (type: string, token_hash: string | undefined) =>
    ask('POST', '/verify', { body: { type, token_hash } }, of);
  const next = newEmail();
  const current = await admin.generateLink({ type: 'email_change_current', email, newEmail: next });
  const other = await admin.generateLink({ type: 'email_change_new', email, newEmail: next });
  t.is((await verify('email_change', current.data.properties?.hashed_token)).body.code, 200);
  t.is((await verify('email_change', other.data.properties?.hashed_token)).body.user.email, next);
});

test('a link that is handed out is in the audit log, without what lets somebody in', async (t) => {
  const of = await mailProject();
  const { user } = await signedUp(of);
  const { data } = await app(of, of.key).auth.admin.generateLink({ type: 'recovery', email: user.email });
  const { body } = await platform().client.call('GET', '/team/audit-log?limit=200', { token: developer().token });
  const text = JSON.stringify(body);
  // Other tests of this file hand out links at the same moment.
  const entry = body.entries.find(
    (one: { action: string; target_id: string }) =>
      one.action === 'end_user.generate_link' && one.target_id === user.id,
  );
  t.like(entry, { target_id: user.id, after: { kind: 'recovery', email: user.email } });
  t.is(entry?.actor.type, 'key');
  t.false(text.includes(data.properties?.hashed_token ?? 'no link'));
});
