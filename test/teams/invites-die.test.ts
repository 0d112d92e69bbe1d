import test from 'ava';
import type { Role } from '#domain/teams/store.ts';
import type { Answer, TestUser } from '#test/support/client.ts';
import { type TestOrganization, createOrganization, memberIdOf, tokenOfLink } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false, shared: true });

interface Guest {
  readonly user: TestUser;
  readonly memberId: string;
  readonly accept: () => Promise<Answer>;
}

const inviteBy = async (org: TestOrganization, by: Role, role: Role): Promise<Guest> => {
  const { client } = platform();
  const user = await client.signUp();
  const { body, status, text } = await org.as(by, 'POST', '/team/invite', { body: { email: user.email, role } });
  if (status !== 201) throw new Error(text);
  const token = tokenOfLink(body.invite_link);
  return {
    user,
    memberId: body.id,
    accept: () => client.call('POST', `/team/invite/${token}/accept`, { token: user.token }),
  };
};

const adminOf = (org: TestOrganization): Promise<string> => memberIdOf(platform(), org.id, org.members.admin.id);

test('the invites of a member who is removed die, those of others live', async (t) => {
  const org = await createOrganization(platform());
  const [dead, living] = [await inviteBy(org, 'admin', 'admin'), await inviteBy(org, 'owner', 'admin')];
  t.is((await org.as('owner', 'DELETE', `/team/members/${await adminOf(org)}`)).status, 204);
  t.is((await dead.accept()).status, 404);
  t.is((await living.accept()).status, 200);
});

test('so do those of a member who leaves', async (t) => {
  const org = await createOrganization(platform());
  const dead = await inviteBy(org, 'admin', 'viewer');
  t.is((await org.as('admin', 'DELETE', `/team/members/${await adminOf(org)}`)).status, 204);
  t.is((await dead.accept()).status, 404);
});

test('of a member who is demoted those die that the new role could not send', async (t) => {
  const org = await createOrganization(platform());
  const path = `/team/members/${await adminOf(org)}/role`;
  t.is((await org.as('owner', 'PATCH', path, { body: { role: 'owner' } })).status, 200);
  const [owner, viewer] = [await inviteBy(org, 'admin', 'owner'), await inviteBy(org, 'admin', 'viewer')];
  t.is((await org.as('owner', 'PATCH', path, { body: { role: 'admin' } })).status, 200);
  t.is((await owner.accept()).status, 404);
  t.is((await viewer.accept()).status, 200);
  const late = await inviteBy(org, 'admin', 'viewer');
  t.is((await org.as('owner', 'PATCH', path, { body: { role: 'developer' } })).status, 200);
  t.is((await late.accept()).status, 404);
  t.is((await org.as('owner', 'PATCH', path, { body: { role: 'owner' } })).status, 200);
  t.is((await late.accept()).status, 404, 'it stays dead');
});

test('an invite that somebody else sent again or changed rests on their right', async (t) => {
  const org = await createOrganization(platform());
  const [changed, resent] = [await inviteBy(org, 'admin', 'viewer'), await inviteBy(org, 'admin', 'viewer')];
  const role = { body: { role: 'developer' } };
  t.is((await org.as('owner', 'PATCH', `/team/members/${changed.memberId}/role`, role)).status, 200);
  const again = await org.as('owner', 'POST', `/team/members/${resent.memberId}/resend`);
  t.is((await org.as('owner', 'DELETE', `/team/members/${await adminOf(org)}`)).status, 204);
  t.is((await changed.accept()).status, 200);
  const path = `/team/invite/${tokenOfLink(again.body.invite_link)}/accept`;
  t.is((await platform().client.call('POST', path, { token: resent.user.token })).status, 200);
});

test('who was let in by an invite stays, whatever becomes of the inviter', async (t) => {
  const org = await createOrganization(platform());
  const guest = await inviteBy(org, 'admin', 'viewer');
  t.is((await guest.accept()).status, 200);
  t.is((await org.as('owner', 'DELETE', `/team/members/${await adminOf(org)}`)).status, 204);
  const headers = { 'x-org-id': org.id };
  t.is((await platform().client.call('GET', '/team/members', { token: guest.user.token, headers })).status, 200);
});
