import test from 'ava';
import { type TestUser, uniqueName } from '#test/support/client.ts';
import { createOrganization, insertMember, memberIdOf, tokenOfLink } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test, { worker: false, settings: { PLINTH_ORGS_PER_USER: '3' } });

const make = (user: TestUser) =>
  platform().client.call('POST', '/team/orgs', { token: user.token, body: { org_name: uniqueName('Acme') } });

/** The user then owns as many organizations as one may. */
const fill = async (user: TestUser): Promise<void> => {
  await make(user);
  await make(user);
};

test('of ten organizations created at once a user gets as many as one may own', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const answers = await Promise.all(Array.from({ length: 10 }, () => make(user)));
  t.deepEqual(statusCounts(answers), { 201: 2, 403: 8 });
  t.is(answers.find(({ status }) => status === 403)?.body.code, 'plan_limit_exceeded');
  t.is((await db.query('select from members where user_id = $1', [user.id])).length, 3);
});

test('organizations of which one is a member only do not count', async (t) => {
  const org = await createOrganization(platform());
  await fill(org.members.admin);
  t.is((await make(org.members.admin)).status, 403);
  t.is((await make(org.members.viewer)).status, 201);
});

test('nobody becomes the owner of one more by a change of role', async (t) => {
  const org = await createOrganization(platform());
  const { admin } = org.members;
  await fill(admin);
  const id = await memberIdOf(platform(), org.id, admin.id);
  const asOwner = () => org.as('owner', 'PATCH', `/team/members/${id}/role`, { body: { role: 'owner' } });
  const refused = await asOwner();
  t.is(refused.status, 403);
  t.is(refused.body.code, 'plan_limit_exceeded');
  t.is((await org.as('owner', 'PATCH', `/team/members/${id}/role`, { body: { role: 'viewer' } })).status, 200);
  const room = await insertMember(platform(), org.id, 'admin');
  const changed = await org.as('owner', 'PATCH', `/team/members/${room.id}/role`, { body: { role: 'owner' } });
  t.is(changed.status, 200);
  const same = await org.as('owner', 'PATCH', `/team/members/${room.id}/role`, { body: { role: 'owner' } });
  t.is(same.status, 200);
});

test('nobody becomes the owner of one more by an invite, which stays', async (t) => {
  const { client } = platform();
  const org = await createOrganization(platform());
  const guest = await client.signUp();
  await fill(guest);
  const invited = await org.as('owner', 'POST', '/team/invite', { body: { email: guest.email, role: 'owner' } });
  const accept = () =>
    client.call('POST', `/team/invite/${tokenOfLink(invited.body.invite_link)}/accept`, { token: guest.token });
  const refused = await accept();
  t.is(refused.status, 403);
  t.is(refused.body.code, 'plan_limit_exceeded');
  const changed = await org.as('owner', 'PATCH', `/team/members/${invited.body.id}/role`, { body: { role: 'admin' } });
  t.is(changed.status, 200);
  t.is((await accept()).status, 200);
});
