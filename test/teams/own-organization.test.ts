import test from 'ava';
import { createOrganization, memberIdOf, ownOrgId } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });

const twoOwners = async () => {
  const org = await createOrganization(platform());
  const { owner, admin } = org.members;
  const adminId = await memberIdOf(platform(), org.id, admin.id);
  t200(await org.as('owner', 'PATCH', `/team/members/${adminId}/role`, { body: { role: 'owner' } }));
  return { org, owner, admin, ownerId: await memberIdOf(platform(), org.id, owner.id), adminId };
};

const t200 = ({ status, text }: { status: number; text: string }): void => {
  if (status !== 200) throw new Error(text);
};

test('whoever leaves the organization that they began with has a usable account', async (t) => {
  const { client } = platform();
  const { org, owner, ownerId } = await twoOwners();
  t.is((await client.call('DELETE', `/team/members/${ownerId}`, { token: owner.token })).status, 204);
  const { body } = await client.call('GET', '/team/orgs', { token: owner.token });
  t.is(body.length, 1);
  t.like(body[0], { is_own: true, role: 'owner' });
  t.not(body[0].org_id, org.id);
  const project = await client.createProject(owner);
  t.is(project.orgId, body[0].org_id);
  const invite = { email: 'guest@example.com', role: 'viewer' };
  t.is((await client.call('POST', '/team/invite', { token: owner.token, body: invite })).status, 201);
});

test('so has whoever is removed from it by another owner', async (t) => {
  const { client } = platform();
  const { org, owner, ownerId } = await twoOwners();
  t.is((await org.as('admin', 'DELETE', `/team/members/${ownerId}`)).status, 204);
  t.not(await ownOrgId(platform(), owner), org.id);
  t.is((await client.createProject(owner)).orgId, await ownOrgId(platform(), owner));
  const [row] = await platform().db.query('select own_of from organizations where id = $1', [org.id]);
  t.deepEqual(row, { own_of: null });
});

test('whoever leaves another organization keeps the own one', async (t) => {
  const org = await createOrganization(platform());
  const { viewer } = org.members;
  const own = await ownOrgId(platform(), viewer);
  const id = await memberIdOf(platform(), org.id, viewer.id);
  t.is((await org.as('viewer', 'DELETE', `/team/members/${id}`)).status, 204);
  t.is(await ownOrgId(platform(), viewer), own);
});
