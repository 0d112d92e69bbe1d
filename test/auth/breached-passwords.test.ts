import { createHash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { serve } from '#test/support/serve.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { app, ask, developer, newProject, platform } = useAuth(test);

const digest = createHash('sha1').update(password).digest('hex').toUpperCase();

/** A project whose list is asked at an address that answers so, and what the list was asked for. */
const guarded = async (t: ExecutionContext, answer: { readonly status?: number; readonly body?: string }) => {
  const requests: string[] = [];
  const list = await serve(t, (request, response) => {
    requests.push(request.url ?? '');
    response.writeHead(answer.status ?? 200).end(answer.body ?? '');
  });
  const of = await newProject();
  const { status } = await platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, {
    token: developer().token,
    body: { breached_passwords: { url: `${list}/range/` } },
  });
  t.is(status, 200);
  return { of, requests };
};

test('a listed password is refused with the reason that supabase-js reads, and the list gets five digits', async (t) => {
  const { of, requests } = await guarded(t, { body: `0123:1\r\n${digest.slice(5).toLowerCase()}:7\r\n` });
  const { error } = await app(of).auth.signUp({ email: newEmail(), password });
  t.is(error?.code, 'weak_password');
  t.deepEqual(Reflect.get(error ?? {}, 'reasons'), ['pwned']);
  t.deepEqual(requests, [`/range/${digest.slice(0, 5)}`]);
  t.false(platform().logged().includes(password));
});

for (const [what, answer] of Object.entries({
  'a list that does not have it': { body: '0123456789012345678901234567890ABCD:5' },
  'a line of padding': { body: `${digest.slice(5)}:0` },
  'a list that fails': { status: 500, body: `${digest.slice(5)}:7` },
  'an answer without end': { body: `${'0'.repeat(35)}:1\n`.repeat(20_000) },
})) {
  test(`with ${what} the password is taken`, async (t) => {
    const { of, requests } = await guarded(t, answer);
    t.is((await ask('POST', '/signup', { body: { email: newEmail(), password } }, of)).status, 200);
    t.is(requests.length, 1);
  });
}

test('a password that is too short is not asked for', async (t) => {
  const { of, requests } = await guarded(t, {});
  t.is((await ask('POST', '/signup', { body: { email: newEmail(), password: 'short' } }, of)).status, 422);
  t.deepEqual(requests, []);
});

test('an address that is none is refused', async (t) => {
  const of = await newProject();
  for (const url of ['file:///etc/passwd', 'x', '']) {
    const { status } = await platform().client.call('PATCH', `/projects/${of.id}/auth/settings`, {
      token: developer().token,
      body: { breached_passwords: { url } },
    });
    t.is(status, 400);
  }
});

const known = createHash('sha1').update('password').digest('hex').toUpperCase();

for (const [what, { answer, error }] of Object.entries({
  'a list that lists known passwords': { answer: { body: `${known.slice(5)}:9` }, error: null },
  'a list that does not': { answer: { body: '0123456789012345678901234567890ABCD:5' }, error: /does not list/ },
  'a list that fails': { answer: { status: 500 }, error: /It answered 500/ },
})) {
  test(`a trial of ${what} says so`, async (t) => {
    const requests: string[] = [];
    const list = await serve(t, (request, response) => {
      requests.push(request.url ?? '');
      response.writeHead('status' in answer ? answer.status : 200).end('body' in answer ? answer.body : '');
    });
    const of = await newProject();
    const { status, body } = await platform().client.call(
      'POST',
      `/projects/${of.id}/auth/settings/breached-passwords/test`,
      { token: developer().token, body: { url: `${list}/range/` } },
    );
    t.is(status, 200);
    t.is(body.ok, error === null);
    if (error === null) t.is(body.error, null);
    else t.regex(body.error, error);
    t.deepEqual(requests, [`/range/${known.slice(0, 5)}`]);
  });
}
