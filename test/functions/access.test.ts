import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import type { CallOptions } from '#test/support/client.ts';

const { scene, platform } = useJobsApi(test);

const tells = `exports.handler = (_, { caller, request }) => ({
  ...caller,
  authorization: request?.headers.get('authorization') ?? null,
  names: request && [...request.headers.keys()],
});`;

const tokenOf = async ({ ask }: ProjectScene): Promise<string> => {
  const { body } = await ask('POST', '/users/tokens', { body: { sub: crypto.randomUUID(), claims: {} } });
  return String(body.access_token);
};

const opened = async (one: ProjectScene, access: string): Promise<void> => {
  const { status, body } = await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { access } });
  if (status !== 200 || body.access !== access) throw new Error(JSON.stringify(body));
};

const callers = ['nobody', 'publishable', 'user', 'secret', 'a user with a secret key'] as const;

/** The status of each caller's answer, by access. */
const answers = {
  key: [401, 200, 200, 200, 200],
  user: [401, 403, 200, 403, 200],
  secret: [401, 403, 403, 200, 403],
  public: [200, 200, 200, 200, 200],
} as const;

test('the access of a function says which callers it takes, from one call to the next', async (t) => {
  const one = await scene(tells);
  const token = await tokenOf(one);
  const { ref, key, publishableKey } = one.project;
  const credentials: Readonly<Record<(typeof callers)[number], CallOptions>> = {
    nobody: {},
    publishable: { key: publishableKey },
    user: { token },
    secret: { key },
    'a user with a secret key': { token, key },
  };
  const version = (await one.ask('GET', `/functions/${one.fn.id}`)).body.version as number;
  for (const [access, expected] of Object.entries(answers)) {
    await opened(one, access);
    for (const [place, caller] of callers.entries()) {
      const url = `/p/${ref}/functions/v1/${one.fn.slug}`;
      const answer = await platform().client.call('POST', url, { body: {}, ...credentials[caller] });
      t.is(answer.status, expected[place] ?? 0, `${access}, ${caller}: ${answer.text}`);
    }
  }
  // No part of a version: a rollback changes nothing about it.
  t.is((await one.ask('GET', `/functions/${one.fn.id}`)).body.version, version);
});

test('a stranger learns nothing of functions that are not public', async (t) => {
  const one = await scene(tells);
  const call = (slug: string, ref = one.project.ref) =>
    platform().client.call('GET', `/p/${ref}/functions/v1/${slug}`, { headers: { authorization: 'Basic eDp5' } });
  const [own, none, noProject] = [
    await call(one.fn.slug),
    await call('no-such-function'),
    await call(one.fn.slug, 'abcdefghij0123456789'),
  ];
  const shown = ({ status, body }: typeof own) => ({ status, code: body.code, message: body.message });
  t.is(own.status, 401);
  t.deepEqual(shown(none), shown(own));
  t.deepEqual(shown(noProject), shown(own));
});

test('another service’s credentials reach a public function alone, our own reach none', async (t) => {
  const one = await scene(tells);
  const { ref, key, publishableKey } = one.project;
  const token = await tokenOf(one);
  const foreign = `eyJhbGciOiJub25lIn0.${Buffer.from('{"iss":"https://accounts.google.com"}').toString('base64url')}.c2ln`;
  const call = async (headers: Record<string, string>) => {
    const answer = await platform().client.call('GET', `/p/${ref}/functions/v1/${one.fn.slug}`, { headers });
    return { status: answer.status, ...answer.body };
  };
  await opened(one, 'public');
  for (const authorization of ['Basic eDp5', 'Bearer opaque', `Bearer ${foreign}`, 'Hawk id="x"']) {
    t.like(await call({ authorization }), { status: 200, kind: 'public', authorization });
  }
  t.like(await call({ 'x-api-key': 'of another service', cookie: 'session=1' }), { status: 200, kind: 'public' });
  t.like(await call({ apikey: publishableKey, authorization: 'Basic eDp5' }), {
    status: 200,
    kind: 'publishable',
    authorization: 'Basic eDp5',
  });
  for (const [headers, kind] of [
    [{ authorization: `Bearer ${key}` }, 'secret'],
    [{ authorization: `Bearer ${token}`, apikey: publishableKey }, 'user'],
    [{ 'x-api-key': publishableKey, cookie: 'session=1' }, 'publishable'],
  ] as const) {
    const seen = await call(headers);
    t.like(seen, { status: 200, kind, authorization: null });
    for (const name of ['authorization', 'apikey', 'x-api-key', 'cookie']) t.false(seen.names.includes(name), name);
  }
  t.is((await call({ authorization: `Bearer ${token.slice(0, -8)}AAAAAAAA` })).status, 401);
  await opened(one, 'key');
  t.is((await call({ apikey: publishableKey, authorization: 'Basic eDp5' })).authorization, null);
  t.is((await call({ apikey: publishableKey, authorization: 'Bearer opaque' })).status, 401);
});

test('a function that is closed while calls come in runs for nobody any more', async (t) => {
  const one = await scene(tells);
  const url = `/p/${one.project.ref}/functions/v1/${one.fn.slug}`;
  await opened(one, 'public');
  t.is((await platform().client.call('GET', url)).status, 200);
  // As another process does it, of which this one hears nothing.
  await platform().db.transaction(async (tx) => {
    await tx.query(`update functions set access = 'secret' where id = $1`, [one.fn.id]);
  }, systemActor);
  t.is((await platform().client.call('GET', url)).status, 403);
  t.is((await platform().client.call('GET', url, { key: one.project.key })).status, 200);
});

test('an access that there is not is refused', async (t) => {
  const one = await scene(tells);
  const { status, body } = await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { access: 'everyone' } });
  t.is(status, 400);
  t.is(body.code, 'validation_failed');
});
