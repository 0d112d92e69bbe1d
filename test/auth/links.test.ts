import { request } from 'node:http';
import test from 'ava';
import { parseMail } from '#test/support/smtp.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password } from './auth-scene.ts';
import { useAuthMails } from './mail-scene.ts';

const { app, ask, mailProject, mailsTo, platform, refresh, signIn, signedUp, smtp } = useAuthMails(test);

const confirmed = {
  confirm_email: true,
  site_url: 'https://shop.example/',
  redirect_allow_list: ['https://shop.example/in/*'],
};

test('with confirmed addresses a user signs in once the link of the mail was used', async (t) => {
  const of = await mailProject(confirmed);
  const email = newEmail();
  const { auth } = app(of);
  const up = await auth.signUp({ email, password });
  t.is(up.error, null);
  t.is(up.data.session, null);
  t.is(up.data.user?.email, email);
  t.is((await signIn(email, password, of)).body.error_code, 'email_not_confirmed');
  t.is((await signIn(email, 'wrong password', of)).body.error_code, 'invalid_credentials');
  const [mail] = await mailsTo(email);
  t.regex(mail?.subject ?? '', /^Confirm your e-mail address/);
  const used = await auth.verifyOtp({ token_hash: mail?.token ?? '', type: 'signup' });
  t.is(used.error, null);
  t.is(used.data.user?.email, email);
  t.truthy(used.data.user?.email_confirmed_at);
  t.is((await signIn(email, password, of)).status, 200);
});

test('signing up with a known address is answered as with an unknown one, and changes nothing', async (t) => {
  const of = await mailProject(confirmed);
  const email = newEmail();
  const signUp = (given: string) =>
    ask('POST', '/signup', { body: { email, password: given, data: { name: 'Ada' } } }, of);
  const first = await signUp(password);
  const again = await signUp('another long password');
  const shape = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(shape);
    if (typeof value !== 'object' || value === null) return typeof value;
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shape(field)]));
  };
  t.is(again.status, first.status);
  t.deepEqual(shape(again.body), shape(first.body));
  const [mail] = await mailsTo(email, 2);
  t.is((await ask('POST', '/verify', { body: { type: 'signup', token_hash: mail?.token } }, of)).status, 403);
  const [, second] = await mailsTo(email, 2);
  t.is((await ask('POST', '/verify', { body: { type: 'signup', token_hash: second?.token } }, of)).status, 200);
  t.is((await signIn(email, 'another long password', of)).status, 400);
  t.is((await signIn(email, password, of)).status, 200);
});

test('a forgotten password is set anew by the link, which ends the other sign-ins and works once', async (t) => {
  const of = await mailProject();
  const email = newEmail();
  const before = await signedUp(of, email);
  const { auth } = app(of);
  t.is((await auth.resetPasswordForEmail(email)).error, null);
  const [mail] = await mailsTo(email);
  const used = await auth.verifyOtp({ token_hash: mail?.token ?? '', type: 'recovery' });
  t.is(used.error, null);
  t.is((await auth.updateUser({ password: 'another long password' })).error, null);
  t.is((await refresh(before.refresh_token, of)).status, 400);
  t.is((await signIn(email, password, of)).status, 400);
  t.is((await signIn(email, 'another long password', of)).status, 200);
  const again = await app(of).auth.verifyOtp({ token_hash: mail?.token ?? '', type: 'recovery' });
  t.is(again.error?.code, 'otp_expired');
});

test('recover, otp and resend answer alike for addresses that nobody has, and mail nobody', async (t) => {
  const of = await mailProject();
  const known = newEmail();
  await signedUp(of, known);
  const unknown = newEmail();
  for (const [path, more] of [
    ['/recover', {}],
    ['/otp', { create_user: false }],
    ['/magiclink', { create_user: false }],
    ['/resend', { type: 'signup' }],
  ] as const) {
    const [one, other] = [
      await ask('POST', path, { body: { email: known, ...more } }, of),
      await ask('POST', path, { body: { email: unknown, ...more } }, of),
    ];
    t.deepEqual([one.status, one.text], [200, '{}'], path);
    t.deepEqual([other.status, other.text], [200, '{}'], path);
  }
  await mailsTo(known, 3);
  t.deepEqual(
    smtp().mails.filter(({ to }) => to.includes(unknown)),
    [],
  );
});

test('a magic link makes a user and signs in; so does the code of the same mail', async (t) => {
  const of = await mailProject();
  const email = newEmail();
  const { auth } = app(of);
  t.is((await auth.signInWithOtp({ email, options: { data: { name: 'Ada' } } })).error, null);
  const [mail] = await mailsTo(email);
  t.regex(mail?.code ?? '', /^\d{6}$/);
  const used = await auth.verifyOtp({ email, token: mail?.code ?? '', type: 'email' });
  t.is(used.error, null);
  t.deepEqual(used.data.user?.user_metadata, { name: 'Ada' });
  t.is((await auth.getUser()).data.user?.email, email);
  const link = await app(of).auth.verifyOtp({ token_hash: mail?.token ?? '', type: 'email' });
  t.is(link.error?.code, 'otp_expired');
});

test('five wrong codes end the right one and the link, and a new mail the link of an earlier one', async (t) => {
  const of = await mailProject();
  const email = newEmail();
  await signedUp(of, email);
  const send = () => ask('POST', '/otp', { body: { email } }, of);
  const verify = (body: object) => ask('POST', '/verify', { body: { type: 'email', ...body } }, of);
  await send();
  const [first] = await mailsTo(email);
  const wrong = first?.code === '000000' ? '111111' : '000000';
  for (let n = 0; n < 5; n += 1) t.is((await verify({ email, token: wrong })).body.error_code, 'otp_expired');
  t.is((await verify({ email, token: first?.code })).status, 403);
  await send();
  const [, second] = await mailsTo(email, 2);
  t.is((await verify({ token_hash: first?.token })).status, 403);
  t.is((await verify({ token_hash: second?.token })).status, 200);
});

test('a link that is used 20 times at once signs in once', async (t) => {
  const of = await mailProject();
  const email = newEmail();
  await signedUp(of, email);
  await ask('POST', '/otp', { body: { email } }, of);
  const [mail] = await mailsTo(email);
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => ask('POST', '/verify', { body: { type: 'email', token_hash: mail?.token } }, of)),
  );
  t.is(answers.filter(({ status }) => status === 200).length, 1);
  t.is(answers.filter(({ status }) => status === 403).length, 19);
});

test('links of another project, of another kind and those that are too old do not work', async (t) => {
  const [of, other] = [await mailProject(), await mailProject()];
  const email = newEmail();
  await signedUp(of, email);
  await ask('POST', '/recover', { body: { email } }, of);
  const [mail] = await mailsTo(email);
  const verify = (type: string, where = of) =>
    ask('POST', '/verify', { body: { type, token_hash: mail?.token } }, where);
  t.is((await verify('recovery', other)).status, 403);
  t.is((await verify('signup')).status, 403);
  await useDatabase(platform(), of).query(
    'auth',
    `update auth.one_time_tokens set expires_at = expires_at - interval '61 minutes'`,
  );
  t.is((await verify('recovery')).body.error_code, 'otp_expired');
});

test('a new address counts once both mailboxes have confirmed it, and the old one signs in until then', async (t) => {
  const of = await mailProject(confirmed);
  const [email, next] = [newEmail(), newEmail()];
  const { auth } = app(of);
  await auth.signUp({ email, password });
  const [mail] = await mailsTo(email);
  await auth.verifyOtp({ token_hash: mail?.token ?? '', type: 'signup' });
  const changed = await auth.updateUser({ email: next });
  t.is(changed.error, null);
  t.is(changed.data.user?.new_email, next);
  t.is(changed.data.user?.email, email);
  const [, toOld] = await mailsTo(email, 2);
  const [toNew] = await mailsTo(next);
  const verify = (token: string | undefined) =>
    ask('POST', '/verify', { body: { type: 'email_change', token_hash: token } }, of);
  const half = await verify(toNew?.token);
  t.deepEqual([half.status, half.body.code], [200, 200]);
  t.is((await signIn(email, password, of)).status, 200);
  t.is((await signIn(next, password, of)).status, 400);
  const whole = await verify(toOld?.token);
  t.is(whole.body.user.email, next);
  t.is((await signIn(email, password, of)).status, 400);
  t.is((await signIn(next, password, of)).status, 200);
});

test('a new address that somebody else took meanwhile is refused', async (t) => {
  const of = await mailProject();
  const [email, next] = [newEmail(), newEmail()];
  const { access_token: token } = await signedUp(of, email);
  await signedUp(of, next);
  const refused = await ask('PUT', '/user', { token, body: { email: next } }, of);
  t.deepEqual([refused.status, refused.body.error_code], [422, 'email_exists']);
  t.is((await signIn(email, password, of)).status, 200);
});

test('a password that was set before the address was proved is gone once its owner proves it', async (t) => {
  const of = await mailProject(confirmed);
  const email = newEmail();
  await ask('POST', '/signup', { body: { email, password } }, of);
  await ask('POST', '/recover', { body: { email } }, of);
  const mails = await mailsTo(email, 2);
  const link = mails.find(({ subject }) => subject.startsWith('Reset'));
  t.is((await ask('POST', '/verify', { body: { type: 'recovery', token_hash: link?.token } }, of)).status, 200);
  t.is((await signIn(email, password, of)).body.error_code, 'invalid_credentials');
});

test('names with line breaks and markup reach no header, and no markup', async (t) => {
  const of = await mailProject();
  const email = newEmail();
  const data = { full_name: 'Ada\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script>' };
  await ask('POST', '/signup', { body: { email, password, data } }, of);
  await ask('POST', '/recover', { body: { email } }, of);
  await mailsTo(email);
  const mail = smtp().mails.find(({ to }) => to.includes(email));
  t.false(/^Bcc:/im.test(mail?.raw.split('\r\n\r\n')[0] ?? ''));
  t.false((await parseMail({ raw: mail?.raw ?? '' })).html?.includes('<script'));
  t.deepEqual(
    smtp().mails.filter(({ to }) => to.includes('victim@example.com')),
    [],
  );
});

test('the link in a mail begins with the configured address, whatever Host the request names', async (t) => {
  const of = await mailProject();
  const email = newEmail();
  await signedUp(of, email);
  const body = JSON.stringify({ email });
  const headers = { host: 'evil.example', apikey: of.publishableKey, 'content-type': 'application/json' };
  const url = `${platform().base}/p/${of.ref}/auth/v1/recover`;
  await new Promise((resolve, reject) => {
    request(url, { method: 'POST', headers }, (response) => response.resume().once('end', resolve))
      .once('error', reject)
      .end(body);
  });
  const [mail] = await mailsTo(email);
  t.is(URL.parse(mail?.url ?? '')?.hostname, 'localhost');
  t.false(mail?.text.includes('evil.example'));
});

test('supabase-js changes the password of an old sign-in with the code that reauthenticate mails, once', async (t) => {
  const of = await mailProject();
  const email = newEmail();
  const { auth } = app(of);
  await auth.signUp({ email, password });
  const database = useDatabase(platform(), of);
  await database.query('auth', `update auth.sessions set amr = jsonb_set(amr, '{0,timestamp}', '1')`);
  const wanted = { password: 'another long password' };
  t.is((await auth.updateUser(wanted)).error?.code, 'reauthentication_needed');
  t.is((await auth.reauthenticate()).error, null);
  const [mail] = await mailsTo(email);
  t.regex(mail?.text ?? '', /wants to\s+change the password/);
  t.is(mail?.url, '', 'there is no link that could be opened');
  const nonce = mail?.code ?? '';
  const other = nonce === '000000' ? '000001' : '000000';
  t.is((await auth.updateUser({ ...wanted, nonce: other })).error?.code, 'reauthentication_not_valid');
  const verified = await auth.verifyOtp({ email, token: nonce, type: 'email' });
  t.is(verified.error?.code, 'otp_expired', 'the code signs nobody in');
  t.is((await auth.updateUser({ ...wanted, nonce })).error, null);
  t.is((await auth.updateUser({ password: 'a third long password', nonce })).error?.code, 'reauthentication_not_valid');
  t.is((await signIn(email, wanted.password, of)).status, 200);
});

test('five wrong codes of reauthenticate end the right one, and it needs a sign-in that lasts', async (t) => {
  const of = await mailProject();
  const session = await signedUp(of);
  const { access_token: token, user } = session;
  await useDatabase(platform(), of).query(
    'auth',
    `update auth.sessions set amr = jsonb_set(amr, '{0,timestamp}', '1')`,
  );
  t.is((await ask('GET', '/reauthenticate', { token }, of)).status, 200);
  const [mail] = await mailsTo(user.email);
  const change = (nonce: string) =>
    ask('PUT', '/user', { token, body: { password: 'another long password', nonce } }, of);
  const other = mail?.code === '000000' ? '000001' : '000000';
  for (let n = 0; n < 5; n += 1) t.is((await change(other)).status, 422);
  t.is((await change(mail?.code ?? '')).status, 422);
  t.is((await ask('POST', '/logout?scope=local', { token }, of)).status, 204);
  t.is((await ask('GET', '/reauthenticate', { token }, of)).status, 403);
});
