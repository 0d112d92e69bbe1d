import test from 'ava';
import { useOAuth } from '../oauth/oauth-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

// As an installation that is not a developer's machine.
const scene = useOAuth(test, useAuth(test, { settings: { PLINTH_LOCAL: 'off' } }));
const { ask, developer, platform, project, authorize, newClient, newProject } = scene;

test('without a mail server nothing is promised, for known and unknown addresses alike', async (t) => {
  const { client } = platform();
  const email = newEmail();
  t.is((await ask('POST', '/signup', { body: { email, password } })).status, 200);
  const body = { confirm_email: true };
  const settings = await client.call('PATCH', `/projects/${project().id}/auth/settings`, {
    token: developer().token,
    body,
  });
  t.is(settings.status, 200);
  for (const path of ['/signup', '/recover', '/otp', '/resend']) {
    for (const given of [email, newEmail()]) {
      const refused = await ask('POST', path, { body: { email: given, password, type: 'signup' } });
      t.is(refused.status, 409, path);
      t.regex(refused.body.msg, /mail server/);
    }
  }
});

test('the page for a forgotten password says so, too', async (t) => {
  const of = await newProject();
  const { browser, page } = await authorize(await newClient({}, of), {}, undefined, of);
  const forgot = await browser.open(`${page.url}?view=forgot`);
  const answer = await browser.submit(forgot, '/forgot', { email: newEmail() });
  t.is(answer.status, 409);
  t.regex(answer.text, /cannot send mail yet/);
});
