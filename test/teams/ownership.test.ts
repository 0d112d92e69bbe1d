import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { sweepOrganizations } from '#domain/teams/store.ts';
import { newId } from '#lib/ids.ts';
import { uniqueName } from '#test/support/client.ts';
import {
  createOrganization,
  insertMember,
  memberIdOf,
  ownOrgId,
  roleOf,
  tokenOfLink,
} from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test);

test('a transfer makes another member the owner, and the former one an admin with an own organization', async (t) => {
  const { client } = platform();
  const org = await createOrganization(platform());
  const { owner, developer } = org.members;
  const [ownerId, developerId] = [
    await memberIdOf(platform(), org.id, owner.id),
    await memberIdOf(platform(), org.id, developer.id),
  ];
  const body = { member_id: developerId };
  const answer = await org.as('owner', 'POST', '/team/orgs/current/transfer', { body });
  t.is(answer.status, 200);
  t.like(answer.body, { org_id: org.id, owner: { id: developerId, role: 'owner', email: developer.email } });
  t.is(await roleOf(platform(), developerId), 'owner');
  t.is(await roleOf(platform(), ownerId), 'admin');
  t.is((await org.as('owner', 'POST', '/team/orgs/current/transfer', { body: { member_id: ownerId } })).status, 403);
  t.not(await ownOrgId(platform(), owner), org.id);
  t.is((await client.createProject(owner)).orgId, await ownOrgId(platform(), owner));
  t.is((await client.createProject(owner, { org_id: org.id })).orgId, org.id);
});

test('only owners transfer and delete', async (t) => {
  const org = await createOrganization(platform());
  const { id } = await insertMember(platform(), org.id, 'developer');
  for (const role of ['viewer', 'developer', 'admin'] as const) {
    const body = { member_id: id };
    t.is((await org.as(role, 'POST', '/team/orgs/current/transfer', { body })).status, 403);
    t.is((await org.as(role, 'DELETE', '/team/orgs/current')).status, 403);
  }
});

test('nothing is transferred to oneself, to an invite, or to a stranger', async (t) => {
  const org = await createOrganization(platform());
  const [self, invited, stranger] = [
    await memberIdOf(platform(), org.id, org.members.owner.id),
    (await insertMember(platform(), org.id, 'admin', 'pending')).id,
    (await insertMember(platform(), (await createOrganization(platform())).id, 'admin')).id,
  ];
  const to = async (id: string) =>
    (await org.as('owner', 'POST', '/team/orgs/current/transfer', { body: { member_id: id } })).status;
  t.deepEqual([await to(self), await to(invited), await to(stranger), await to(newId())], [409, 409, 404, 404]);
  t.is(await roleOf(platform(), self), 'owner');
});

test('of two transfers at once one happens, and there is one owner', async (t) => {
  const org = await createOrganization(platform());
  const ids = await Promise.all(
    (['admin', 'developer'] as const).map((role) => memberIdOf(platform(), org.id, org.members[role].id)),
  );
  const answers = await Promise.all(
    ids.map((id) => org.as('owner', 'POST', '/team/orgs/current/transfer', { body: { member_id: id } })),
  );
  t.deepEqual(statusCounts(answers), { 200: 1, 403: 1 });
  const owners = await platform().db.query(`select from members where org_id = $1 and role = 'owner'`, [org.id]);
  t.is(owners.length, 1);
});

test('a deleted organization is gone for its members, with its projects, keys and invites', async (t) => {
  const { client, db } = platform();
  const org = await createOrganization(platform());
  const { owner, viewer } = org.members;
  const project = await client.createProject(owner, { org_id: org.id });
  const guest = await client.signUp();
  const invited = await org.as('owner', 'POST', '/team/invite', { body: { email: guest.email, role: 'viewer' } });
  t.is((await org.as('owner', 'DELETE', '/team/orgs/current')).status, 204);
  t.is((await org.as('viewer', 'GET', '/team/members')).status, 404);
  t.is((await client.call('GET', `/projects/${project.id}`, { token: viewer.token })).status, 404);
  t.is((await client.call('GET', '/v1/rest/anything', { key: project.key })).status, 401);
  const path = `/team/invite/${tokenOfLink(invited.body.invite_link)}/accept`;
  t.is((await client.call('POST', path, { token: guest.token })).status, 404);
  t.is((await client.call('GET', '/projects', { token: owner.token })).body.total, 0);
  const orgs = (await client.call('GET', '/team/orgs', { token: viewer.token })).body as { org_id: string }[];
  t.false(orgs.some(({ org_id: id }) => id === org.id));
  const body = { name: 'Late', slug: uniqueName('late'), org_id: org.id, plan: 'pro' };
  t.is((await client.call('POST', '/projects', { token: owner.token, body })).status, 404);
  const [row] = await db.query<{ retired: boolean }>(
    'select retired_at is not null as retired from projects where id = $1',
    [project.id],
  );
  t.true(row?.retired);
  const entries = await db.query<{ action: string; target_type: string }>(
    `select action, target_type from audit_entries where org_id = $1 and action like '%.delete' order by id`,
    [org.id],
  );
  const actions = new Set(entries.map(({ action }) => action));
  for (const action of ['project.delete', 'organization.delete', 'member.delete']) t.true(actions.has(action), action);
});

test('whoever deletes the own organization has a new one', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const before = await ownOrgId(platform(), user);
  t.is((await client.call('DELETE', '/team/orgs/current', { token: user.token })).status, 204);
  t.not(await ownOrgId(platform(), user), before);
  t.is((await client.createProject(user)).orgId, await ownOrgId(platform(), user));
});

test('the row of a deleted organization goes once nothing of its projects is kept', async (t) => {
  const { client, db } = platform();
  const org = await createOrganization(platform());
  await client.createProject(org.members.owner, { org_id: org.id });
  t.is((await org.as('owner', 'DELETE', '/team/orgs/current')).status, 204);
  const sweep = async (): Promise<number> => {
    await db.transaction(sweepOrganizations, systemActor);
    return (await db.query('select from organizations where id = $1', [org.id])).length;
  };
  t.is(await sweep(), 1);
  await db.transaction((tx) => tx.query('delete from projects where org_id = $1', [org.id]), systemActor);
  t.is(await sweep(), 0);
});
