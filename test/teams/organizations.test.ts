import test from 'ava';
import { uniqueName } from '#test/support/client.ts';
import { type Attempt, brokenText, expectFieldRefused, expectShapeRefused, noText } from '#test/support/malformed.ts';
import { createOrganization, ownOrgId } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false, shared: true });

const badNames = [...noText, ...brokenText('Acme'), '', ' \n\t', 'x'.repeat(101)];

test('a new organization belongs to its maker, beside the own one', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const made = await client.call('POST', '/team/orgs', { token: user.token, body: { org_name: 'Acme' } });
  t.is(made.status, 201);
  t.deepEqual(Object.keys(made.body).toSorted(), ['org_id', 'org_name']);
  t.is(made.body.org_name, 'Acme');
  t.regex(made.body.org_id, /^[a-z][a-z0-9]{15}$/);
  const { body } = await client.call('GET', '/team/orgs', { token: user.token });
  t.is(body.length, 2);
  t.like(body[0], { is_own: true, role: 'owner' });
  t.deepEqual(body[1], { org_id: made.body.org_id, org_name: 'Acme', role: 'owner', is_own: false });
});

test('two organizations may have the same name', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const make = () => client.call('POST', '/team/orgs', { token: user.token, body: { org_name: 'Twins' } });
  const [first, second] = await Promise.all([make(), make()]);
  t.is(first.status, 201);
  t.is(second.status, 201);
  t.not(first.body.org_id, second.body.org_id);
});

test('a member sees an organization with the role there, and not as the own one', async (t) => {
  const org = await createOrganization(platform());
  const { body } = await org.as('developer', 'GET', '/team/orgs');
  t.is(body.length, 2);
  t.is(body[0].is_own, true);
  t.like(body[1], { org_id: org.id, role: 'developer', is_own: false });
});

test('team calls act on the caller’s own organization unless X-Org-Id names another', async (t) => {
  const { client } = platform();
  const org = await createOrganization(platform());
  const { viewer } = org.members;
  const own = await client.call('GET', '/team/members', { token: viewer.token });
  t.deepEqual(
    own.body.map(({ email }: { email: string }) => email),
    [viewer.email],
  );
  t.is((await org.as('viewer', 'GET', '/team/members')).body.length, 4);
  const empty = await client.call('GET', '/team/members', { token: viewer.token, headers: { 'x-org-id': '' } });
  t.is(empty.body.length, 1);
});

test('a foreign organization and one that does not exist get the same 404', async (t) => {
  const { client } = platform();
  const org = await createOrganization(platform());
  const stranger = await client.signUp();
  const wanted = [
    org.id,
    'a123456789012345',
    'x',
    org.members.owner.id,
    "' or true --",
    `${org.id},x`,
    org.id.toUpperCase(),
  ];
  const paths: readonly (readonly [string, string, unknown?])[] = [
    ['GET', '/team/members'],
    ['GET', '/team/audit-log'],
    ['POST', '/team/invite', { email: 'guest@example.com', role: 'owner' }],
    ['PATCH', '/team/orgs/current', { org_name: 'Stolen' }],
  ];
  for (const [method, path, body] of paths) {
    for (const orgId of wanted) {
      const headers = { 'x-org-id': orgId, 'x-request-id': 'same' };
      const answer = await client.call(method, path, { token: stranger.token, headers, body });
      t.is(answer.status, 404, `${method} ${path} of ${orgId}`);
      t.is(answer.body.code, 'not_found');
      t.is(answer.body.message, 'No such organization.');
    }
  }
  t.is((await org.as('owner', 'GET', '/team/members')).body.length, 4);
});

test('nothing of the team calls works without a sign-in', async (t) => {
  const id = '01890000-0000-7000-8000-000000000000';
  const calls: readonly (readonly [string, string])[] = [
    ['GET', '/team/orgs'],
    ['POST', '/team/orgs'],
    ['PATCH', '/team/orgs/current'],
    ['GET', '/team/audit-log'],
    ['GET', '/team/members'],
    ['POST', '/team/invite'],
    ['POST', '/team/invite/token/accept'],
    ['PATCH', `/team/members/${id}/role`],
    ['DELETE', `/team/members/${id}`],
    ['POST', `/team/members/${id}/resend`],
  ];
  const { client } = platform();
  const user = await client.signUp();
  const orgId = await ownOrgId(platform(), user);
  for (const [method, path] of calls) {
    const answer = await client.call(method, path, { headers: { 'x-org-id': orgId } });
    t.is(answer.status, 401, `${method} ${path}`);
  }
});

test('an organization is renamed for everybody', async (t) => {
  const org = await createOrganization(platform());
  const name = uniqueName('Acme & Söhne "quoted"');
  const renamed = await org.as('admin', 'PATCH', '/team/orgs/current', { body: { org_name: name } });
  t.is(renamed.status, 200);
  t.deepEqual(renamed.body, { org_id: org.id, org_name: name });
  const { body } = await org.as('viewer', 'GET', '/team/orgs');
  t.is(body[1].org_name, name);
});

test('malformed names are refused', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const headers = { authorization: `Bearer ${user.token}` };
  const make: Attempt = { client, path: '/team/orgs', headers, good: { org_name: 'Acme' } };
  await expectFieldRefused(t, make, 'org_name', badNames);
  await expectShapeRefused(t, make);
  const rename: Attempt = { ...make, method: 'PATCH', path: '/team/orgs/current' };
  await expectFieldRefused(t, rename, 'org_name', badNames);
  await expectShapeRefused(t, rename);
  const { body } = await client.call('GET', '/team/orgs', { token: user.token });
  t.is(body.length, 1);
});

test('a member is shown with the fields of the interface, whether active or invited', async (t) => {
  const org = await createOrganization(platform());
  await org.as('admin', 'POST', '/team/invite', { body: { email: 'Guest@Example.com', role: 'viewer' } });
  const { body } = await org.as('viewer', 'GET', '/team/members');
  for (const member of body) {
    t.deepEqual(Object.keys(member).toSorted(), ['avatar_url', 'email', 'full_name', 'id', 'role', 'status']);
  }
  t.like(body[0], { email: org.members.owner.email, role: 'owner', status: 'active' });
  t.like(body.at(-1), { email: 'Guest@Example.com', role: 'viewer', status: 'pending', full_name: null });
});

test('a member who does not exist is 404', async (t) => {
  const org = await createOrganization(platform());
  for (const id of ['01890000-0000-7000-8000-000000000000', 'x', '1', "'", '..%2f..', '%F0%9F%94%91']) {
    t.is((await org.as('owner', 'PATCH', `/team/members/${id}/role`, { body: { role: 'viewer' } })).status, 404, id);
    t.is((await org.as('owner', 'DELETE', `/team/members/${id}`)).status, 404, id);
    t.is((await org.as('owner', 'POST', `/team/members/${id}/resend`)).status, 404, id);
  }
});

test('malformed roles are refused', async (t) => {
  const org = await createOrganization(platform());
  const { body } = await org.as('owner', 'GET', '/team/members');
  const attempt: Attempt = {
    client: platform().client,
    method: 'PATCH',
    path: `/team/members/${body[1].id}/role`,
    headers: { authorization: `Bearer ${org.members.owner.token}` },
    good: { role: 'viewer' },
  };
  await expectFieldRefused(t, attempt, 'role', [...noText, '', 'Owner', 'root', 'owner ', 'owner\0', '__proto__']);
  await expectShapeRefused(t, attempt);
});
