import test from 'ava';
import { actingAs, systemActor } from '#domain/audit/actor.ts';
import type { Role } from '#domain/teams/store.ts';
import { untilBlocked } from '#test/support/blocked.ts';
import { type Answer, uniqueName } from '#test/support/client.ts';
import {
  type TestOrganization,
  createOrganization,
  insertMember,
  memberIdOf,
  ownOrgId,
  roleOf,
} from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test, { worker: false });

const setRole = (memberId: string, role: Role) =>
  platform().db.transaction(
    (tx) => tx.query('update members set role = $2 where id = $1', [memberId, role]),
    systemActor,
  );

const ownersOf = async (orgId: string): Promise<number> => {
  const rows = await platform().db.query(
    `select from members where org_id = $1 and role = 'owner' and status = 'active'`,
    [orgId],
  );
  return rows.length;
};

test('the last owner can neither leave nor be demoted', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const orgId = await ownOrgId(platform(), owner);
  const id = await memberIdOf(platform(), orgId, owner.id);
  await insertMember(platform(), orgId, 'owner', 'pending');
  await insertMember(platform(), orgId, 'admin');
  const leaving = await client.call('DELETE', `/team/members/${id}`, { token: owner.token });
  const stepping = await client.call('PATCH', `/team/members/${id}/role`, {
    token: owner.token,
    body: { role: 'admin' },
  });
  for (const { status, body } of [leaving, stepping]) {
    t.is(status, 409);
    t.is(body.code, 'last_owner');
  }
  const same = await client.call('PATCH', `/team/members/${id}/role`, { token: owner.token, body: { role: 'owner' } });
  t.is(same.status, 200);
  t.is(await roleOf(platform(), id), 'owner');
});

test('an owner leaves when there is another, who is then the last', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const orgId = await ownOrgId(platform(), owner);
  const id = await memberIdOf(platform(), orgId, owner.id);
  await insertMember(platform(), orgId, 'owner');
  t.is((await client.call('DELETE', `/team/members/${id}`, { token: owner.token })).status, 204);
  t.is(await ownersOf(orgId), 1);
  // A request without X-Org-Id acts on a new organization of theirs, not on the one that was left.
  t.is((await client.call('GET', '/team/members', { token: owner.token })).body.length, 1);
  t.not(await ownOrgId(platform(), owner), orgId);
  const left = await client.call('GET', '/team/members', { token: owner.token, headers: { 'x-org-id': orgId } });
  t.is(left.status, 404);
});

interface Pair {
  readonly org: TestOrganization;
  readonly ids: readonly [string, string];
}

/** An organization with two owners: its own user and the former admin. */
const twoOwners = async (): Promise<Pair> => {
  const org = await createOrganization(platform());
  const first = await memberIdOf(platform(), org.id, org.members.owner.id);
  const second = await memberIdOf(platform(), org.id, org.members.admin.id);
  await setRole(second, 'owner');
  return { org, ids: [first, second] };
};

const demote = (org: TestOrganization, by: Role, id: string): Promise<Answer> =>
  org.as(by, 'PATCH', `/team/members/${id}/role`, { body: { role: 'viewer' } });

test('of two owners who demote each other at once one remains, twenty times', async (t) => {
  const { org, ids } = await twoOwners();
  for (let round = 0; round < 20; round += 1) {
    await Promise.all(ids.map((id) => setRole(id, 'owner')));
    const answers = await Promise.all([demote(org, 'owner', ids[1]), demote(org, 'admin', ids[0])]);
    t.deepEqual(statusCounts(answers), { 200: 1, 403: 1 });
    t.is(await ownersOf(org.id), 1);
  }
});

test('of two owners who step down at once one remains, twenty times', async (t) => {
  const { org, ids } = await twoOwners();
  for (let round = 0; round < 20; round += 1) {
    await Promise.all(ids.map((id) => setRole(id, 'owner')));
    const answers = await Promise.all([demote(org, 'owner', ids[0]), demote(org, 'admin', ids[1])]);
    t.deepEqual(statusCounts(answers), { 200: 1, 409: 1 });
    t.is(await ownersOf(org.id), 1);
  }
});

test('of two owners who remove each other at once one remains', async (t) => {
  const { org, ids } = await twoOwners();
  const answers = await Promise.all([
    org.as('owner', 'DELETE', `/team/members/${ids[1]}`),
    org.as('admin', 'DELETE', `/team/members/${ids[0]}`),
  ]);
  t.deepEqual(statusCounts(answers), { 204: 1, 404: 1 });
  t.is(await ownersOf(org.id), 1);
});

/** Makes a change of a member (null: removal) while a request already waits for it. */
const during = (
  request: () => Promise<Answer>,
  change: { readonly orgId: string; readonly memberId: string; readonly role: Role | null },
): Promise<{ running: Promise<Answer> }> =>
  platform().db.transaction(
    async (tx) => {
      await tx.query('select from organizations where id = $1 for no key update', [change.orgId]);
      const running = request();
      await untilBlocked(platform().db);
      if (change.role === null) await tx.query('delete from members where id = $1', [change.memberId]);
      else await tx.query('update members set role = $2 where id = $1', [change.memberId, change.role]);
      return { running };
    },
    actingAs({ type: 'system' }),
  );

test.serial('an admin neither removes nor demotes somebody who becomes an owner at that moment', async (t) => {
  const org = await createOrganization(platform());
  const { id } = await insertMember(platform(), org.id, 'developer');
  const attempts = [() => org.as('admin', 'DELETE', `/team/members/${id}`), () => demote(org, 'admin', id)];
  for (const attempt of attempts) {
    await setRole(id, 'developer');
    const { running } = await during(attempt, { orgId: org.id, memberId: id, role: 'owner' });
    t.is((await running).status, 403);
    t.is(await roleOf(platform(), id), 'owner');
  }
});

test.serial('the last owner is safe from somebody who held a role above until that moment', async (t) => {
  const { org, ids } = await twoOwners();
  const { running } = await during(() => org.as('owner', 'DELETE', `/team/members/${ids[0]}`), {
    orgId: org.id,
    memberId: ids[1],
    role: 'viewer',
  });
  const answer = await running;
  t.is(answer.status, 409);
  t.is(answer.body.code, 'last_owner');
});

test.serial('who is demoted or removed at that moment invites nobody and changes nobody', async (t) => {
  const org = await createOrganization(platform());
  const adminId = await memberIdOf(platform(), org.id, org.members.admin.id);
  const target = await insertMember(platform(), org.id, 'viewer');
  const invited = await insertMember(platform(), org.id, 'viewer', 'pending');
  const email = `${uniqueName('guest')}@example.com`;
  const attempts = [
    () => org.as('admin', 'POST', '/team/invite', { body: { email, role: 'viewer' } }),
    () => org.as('admin', 'PATCH', `/team/members/${target.id}/role`, { body: { role: 'admin' } }),
    () => org.as('admin', 'DELETE', `/team/members/${target.id}`),
    () => org.as('admin', 'POST', `/team/members/${invited.id}/resend`),
  ];
  for (const attempt of attempts) {
    await setRole(adminId, 'admin');
    const { running } = await during(attempt, { orgId: org.id, memberId: adminId, role: 'developer' });
    t.is((await running).status, 403);
  }
  await setRole(adminId, 'admin');
  const [attempt] = attempts;
  const { running } = await during(attempt as () => Promise<Answer>, { orgId: org.id, memberId: adminId, role: null });
  t.is((await running).status, 404);
  t.is(await roleOf(platform(), target.id), 'viewer');
  t.deepEqual(await platform().db.query('select id from members where email = $1', [email]), []);
});
