import test from 'ava';
import type { Context } from 'koa';
import { withKey } from '#api/access.ts';
import { authenticate } from '#api/auth/authenticate.ts';
import type { Deps } from '#api/deps.ts';
import { createKeyHolders } from '#domain/projects/api-keys.ts';
import { ServiceError } from '#lib/errors.ts';
import { createClient } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

const unknownFunction = '/api/functions/nothing-of-this-name';

const scene = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const { body } = await platform().client.call('GET', `/projects/${project.id}/api-keys`, { token: user.token });
  const secret = body.api_keys.find(({ kind }: { kind: string }) => kind === 'secret');
  return { user, project, secretId: String(secret.id) };
};

const holdersOf = (isSubscribed = true) => {
  let queries = 0;
  const holders = createKeyHolders({
    db: {
      query: (...args) => {
        queries += 1;
        return platform().db.query(...args);
      },
    },
    isSubscribed: () => isSubscribed,
  });
  return { holders, queries: () => queries };
};

test('a key that is deleted in one process is refused by the others', async (t) => {
  const { user, project, secretId } = await scene();
  const other = createClient(await platform().startApi());
  t.is((await other.call('POST', unknownFunction, { key: project.key, body: 1 })).status, 404);
  const path = `/projects/${project.id}/api-keys/${secretId}`;
  t.is((await platform().client.call('DELETE', path, { token: user.token })).status, 204);
  t.is((await platform().client.call('POST', unknownFunction, { key: project.key, body: 1 })).status, 401);
  // It hears of it a moment after the answer.
  await until(async () => (await other.call('POST', unknownFunction, { key: project.key, body: 1 })).status === 401);
  t.pass();
});

test('the keys of a deleted project are refused', async (t) => {
  const { user, project } = await scene();
  t.is((await platform().client.call('POST', unknownFunction, { key: project.key, body: 1 })).status, 404);
  await platform().client.call('DELETE', `/projects/${project.id}`, { token: user.token });
  t.is((await platform().client.call('POST', unknownFunction, { key: project.key, body: 1 })).status, 401);
});

test('a key is looked up once, and again when its project was changed', async (t) => {
  const { project } = await scene();
  const { holders, queries } = holdersOf();
  for (let n = 0; n < 3; n += 1) t.is((await holders.find(project.key))?.project.id, project.id);
  t.is(queries(), 1);
  holders.forget(project.id);
  await holders.find(project.key);
  t.is(queries(), 2);
});

test('nothing is kept while changes elsewhere are not heard of', async (t) => {
  const { project } = await scene();
  const { holders, queries } = holdersOf(false);
  await holders.find(project.key);
  await holders.find(project.key);
  t.is(queries(), 2);
});

test('what was read before a change is not kept after it', async (t) => {
  const { project } = await scene();
  const { holders, queries } = holdersOf();
  const reading = holders.find(project.key);
  holders.forget(project.id);
  await reading;
  await holders.find(project.key);
  t.is(queries(), 2);
});

test('a key that expires while it is kept is no key any more', async (t) => {
  const { user, project } = await scene();
  const expires = new Date(Date.now() + 1500);
  const { body } = await platform().client.call('POST', `/projects/${project.id}/api-keys`, {
    token: user.token,
    body: { name: 'short', kind: 'secret', expires_at: expires.toISOString() },
  });
  const { holders } = holdersOf();
  t.truthy(await holders.find(body.api_key));
  await until(async () => (await holders.find(body.api_key)) === undefined);
  t.true(Date.now() >= expires.getTime());
});

test('guesses are not kept, and a project is found by its id and its ref', async (t) => {
  const { project } = await scene();
  const { holders, queries } = holdersOf();
  t.is(await holders.find('plinth_sk_guess'), undefined);
  await holders.find('plinth_sk_guess');
  t.is(queries(), 2);
  t.is((await holders.findProject(project.ref))?.id, project.id);
  t.is((await holders.findProject(project.id))?.ref, project.ref);
  t.is(await holders.findProject('nobody'), undefined);
});

test('a publishable key is refused where only secret keys may', async (t) => {
  const { project } = await scene();
  const noted: string[] = [];
  const credentialUse = { noteKey: (id: string) => void noted.push(id) };
  const deps = { config: platform().config, keys: holdersOf().holders, credentialUse } as unknown as Deps;
  const by = (key: string) => {
    const ctx = { get: (name: string) => (name === 'apikey' ? key : '') } as Context;
    return authenticate(withKey('secret'), ctx, deps, {});
  };
  await t.throwsAsync(by(project.publishableKey), { instanceOf: ServiceError, message: /publishable/ });
  t.is((await by(project.key)).project?.id, project.id);
  t.true(noted.length > 0);
});
