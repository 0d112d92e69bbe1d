import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { app, ask, developer, newProject, platform, refresh, signedUp } = useAuth(test);

/** A service that takes one answer, and notes what it was sent. */
const received: URLSearchParams[] = [];
let service: Server;
let address = '';
test.before(async () => {
  service = createServer((request, response) => {
    let text = '';
    request.on('data', (piece: Buffer) => (text += piece.toString()));
    request.on('end', () => {
      const form = new URLSearchParams(text);
      received.push(form);
      if (form.get('response') === 'broken') response.statusCode = 500;
      const isKnown = form.get('secret') !== 'of nobody';
      const codes = [isKnown ? 'invalid-input-response' : 'invalid-input-secret'];
      response.end(JSON.stringify({ success: form.get('response') === 'a person', 'error-codes': codes }));
    });
  });
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  address = `http://127.0.0.1:${(service.address() as AddressInfo).port}/siteverify`;
});
test.after.always(() => service?.close());

const settings = (of: TestProject, body: object) =>
  platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, { token: developer().token, body });

const guarded = async (secret: string = crypto.randomUUID()) => {
  const of = await newProject();
  const captcha = { provider: 'turnstile', secret, verify_url: address };
  return { of, secret, answer: await settings(of, { captcha }) };
};

test('a secret is shown masked, kept when it comes back so, and nowhere in the clear', async (t) => {
  const { of, secret, answer } = await guarded();
  t.is(answer.status, 200, answer.text);
  t.false(answer.text.includes(secret));
  t.is((await settings(of, { captcha: answer.body.captcha })).status, 200);
  const moved = { ...answer.body.captcha, verify_url: 'https://elsewhere.example/' };
  t.is((await settings(of, { captcha: moved })).status, 400);
  const rows = await platform().db.query(
    `select (select settings::text from auth_settings where project_id = $1) ||
       (select json_agg(a)::text from audit_entries a where project_id = $1) as text`,
    [of.id],
  );
  t.false(JSON.stringify(rows).includes(secret));
  t.is((await settings(of, { captcha: null })).body.captcha, null);
  t.is((await settings(of, { captcha: { provider: 'other', secret: 'x' } })).status, 400);
});

test('supabase-js signs up and in with a captcha, and not without', async (t) => {
  const { of, secret } = await guarded();
  const email = newEmail();
  const without = await app(of).auth.signUp({ email, password });
  t.is(without.error?.code, 'captcha_failed');
  const wrong = await app(of).auth.signUp({ email, password, options: { captchaToken: 'a program' } });
  t.is(wrong.error?.code, 'captcha_failed');
  const right = await app(of).auth.signUp({ email, password, options: { captchaToken: 'a person' } });
  t.is(right.error, null);
  t.is(received.findLast((form) => form.get('secret') === secret)?.get('response'), 'a person');
  t.is((await app(of).auth.signInWithPassword({ email, password })).error?.code, 'captcha_failed');
  const options = { captchaToken: 'a person' };
  t.is((await app(of).auth.signInWithPassword({ email, password, options })).error, null);
  for (const path of ['/recover', '/otp', '/magiclink', '/resend']) {
    const body = { email, type: 'signup' };
    t.is((await ask('POST', path, { body }, of)).body.error_code, 'captcha_failed', path);
  }
});

test('refreshing needs no captcha', async (t) => {
  const of = await newProject();
  const session = await signedUp(of);
  await settings(of, { captcha: { provider: 'hcaptcha', secret: 'a secret of the service', verify_url: address } });
  t.is((await refresh(session.refresh_token, of)).status, 200);
});

test('nobody is let in while the service cannot be asked', async (t) => {
  const { of } = await guarded();
  const body = { email: newEmail(), password, gotrue_meta_security: { captcha_token: 'broken' } };
  t.is((await ask('POST', '/signup', { body }, of)).status, 503);
  await settings(of, { captcha: { provider: 'turnstile', secret: 'x', verify_url: 'http://127.0.0.1:9/' } });
  t.is((await ask('POST', '/signup', { body }, of)).status, 503);
  await settings(of, { captcha: { provider: 'turnstile', secret: 'x', verify_url: 'http://169.254.169.254/' } });
  t.is((await ask('POST', '/signup', { body }, of)).status, 503);
});

test('the site key is public, and the secret is not', async (t) => {
  const { of, secret } = await guarded();
  const captcha = { provider: 'turnstile', secret, site_key: '0x4AAA', verify_url: address };
  t.is((await settings(of, { captcha })).body.captcha.site_key, '0x4AAA');
  const open = await ask('GET', '/settings', {}, of);
  t.deepEqual(open.body.captcha, { provider: 'turnstile', site_key: '0x4AAA' });
  t.false(open.text.includes(secret));
});

test('a captcha is tried before it is saved, and after', async (t) => {
  const { of, secret, answer } = await guarded();
  const { client } = platform();
  const path = `/projects/${of.id}/auth/settings/captcha/test`;
  const tried = (captcha: object) => client.call('POST', path, { token: developer().token, body: { captcha } });
  const kept = await tried(answer.body.captcha);
  t.like(kept.body, { ok: true, error: null });
  t.true(received.some((form) => form.get('secret') === secret));
  const unknown = await tried({ provider: 'turnstile', secret: 'of nobody', verify_url: address });
  t.like(unknown.body, { ok: false, error: 'It does not know the secret (invalid-input-secret).' });
  for (const [url, error] of [
    ['http://127.0.0.1:9/', /No connection/],
    ['http://169.254.169.254/', /may not be reached/],
  ] as const)
    t.regex((await tried({ provider: 'hcaptcha', secret: 'x', verify_url: url })).body.error, error);
  const masked = { ...answer.body.captcha, verify_url: `${address}/elsewhere` };
  t.is((await tried(masked)).status, 400, 'a kept secret goes to no other address');
  t.is((await settings(of, {})).body.captcha.secret, answer.body.captcha.secret, 'a trial saves nothing');
});
