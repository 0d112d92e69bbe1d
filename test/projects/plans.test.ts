import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, {
  settings: {
    PLINTH_PLAN_CHANGES: 'operator',
    PUBLIC_DOMAIN: 'apps.example.org',
    PLINTH_BASE_URL: 'https://api.example.org/',
  },
});

test('where operators choose plans nobody else does', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const requested = await client.call('POST', '/projects', { token: user.token, body: { name: 'A', plan: 'pro' } });
  t.is(requested.status, 403);
  t.is(requested.body.code, 'forbidden');
  const project = await client.createProject(user);
  const path = `/projects/${project.id}`;
  t.is((await client.call('PATCH', path, { token: user.token, body: { plan: 'pro' } })).status, 403);
  const same = await client.call('PATCH', path, { token: user.token, body: { plan: 'free', name: 'B' } });
  t.is(same.status, 200);
  t.like(same.body, { plan: 'free', name: 'B' });
});

test('with PUBLIC_DOMAIN a project’s address is a host name of its own', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const { body } = await client.call('GET', `/projects/${project.id}`, { token: user.token });
  t.is(body.rest_url, `https://${project.ref}.apps.example.org`);
});
