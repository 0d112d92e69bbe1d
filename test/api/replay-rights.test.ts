import test from 'ava';
import { uniqueName } from '#test/support/client.ts';
import { createOrganization, memberIdOf } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });

test('a project’s creation is not repeated to who is no member any more, nor to who may not create one', async (t) => {
  const { client } = platform();
  const org = await createOrganization(platform());
  const { developer } = org.members;
  const headers = { 'idempotency-key': uniqueName('key') };
  const body = { name: 'Shop', slug: uniqueName('shop'), org_id: org.id };
  const create = () => client.call('POST', '/projects', { token: developer.token, headers, body });
  t.is((await create()).status, 201);
  t.is((await create()).status, 201);
  const id = await memberIdOf(platform(), org.id, developer.id);
  t.is((await org.as('owner', 'PATCH', `/team/members/${id}/role`, { body: { role: 'viewer' } })).status, 200);
  const demoted = await create();
  t.is(demoted.status, 403);
  t.is(demoted.headers.get('idempotent-replayed'), null);
  t.is((await org.as('owner', 'DELETE', `/team/members/${id}`)).status, 204);
  const removed = await create();
  t.is(removed.status, 404);
  t.is(removed.body.code, 'not_found');
});

test('an invite to a role above the caller’s is not repeated to a caller who held it before', async (t) => {
  const org = await createOrganization(platform());
  const path = `/team/members/${await memberIdOf(platform(), org.id, org.members.admin.id)}/role`;
  t.is((await org.as('owner', 'PATCH', path, { body: { role: 'owner' } })).status, 200);
  const headers = { 'idempotency-key': uniqueName('key') };
  const body = { email: `${uniqueName('guest')}@example.com`, role: 'owner' };
  const invite = () => org.as('admin', 'POST', '/team/invite', { headers, body });
  t.is((await invite()).status, 201);
  t.is((await invite()).headers.get('idempotent-replayed'), 'true');
  t.is((await org.as('owner', 'PATCH', path, { body: { role: 'admin' } })).status, 200);
  t.is((await invite()).status, 403);
});

test('what a secret key asked for is not repeated to a publishable key', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const code = 'export const handler = () => ({ at: Math.random() });';
  const fn = await client.deploy(user, project, code);
  const headers = { 'idempotency-key': uniqueName('key') };
  const invoke = (key: string) => client.call('POST', `/api/functions/${fn.slug}`, { key, headers, body: {} });
  const [first, again] = [await invoke(project.key), await invoke(project.key)];
  t.is(first.status, 200);
  t.deepEqual(again.body, first.body);
  t.is(again.headers.get('idempotent-replayed'), 'true');
  const stranger = await invoke(project.publishableKey);
  t.is(stranger.status, 200);
  t.is(stranger.headers.get('idempotent-replayed'), null);
  t.notDeepEqual(stranger.body, first.body);
});
