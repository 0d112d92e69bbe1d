import test from 'ava';
import { actingAs } from '#domain/audit/actor.ts';
import {
  type TestOrganization,
  createOrganization,
  insertMember,
  memberIdOf,
  roleOf,
} from '#test/support/organization.ts';
import { uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false, shared: true });

// Written out here, not taken from the platform: this is what the platform is held against.
const everyRole = ['viewer', 'developer', 'admin', 'owner'] as const;
type EachRole = (typeof everyRole)[number];
const mayManage: Readonly<Record<EachRole, readonly EachRole[]>> = {
  viewer: [],
  developer: [],
  admin: ['viewer', 'developer', 'admin'],
  owner: ['viewer', 'developer', 'admin', 'owner'],
};

let made: Promise<TestOrganization> | undefined;
/** The organization that all tests of this file share. */
const organization = (): Promise<TestOrganization> => (made ??= createOrganization(platform()));

for (const actor of everyRole) {
  for (const role of everyRole) {
    const may = mayManage[actor].includes(role);

    test(`${actor} ${may ? 'may' : 'may not'} invite as ${role}`, async (t) => {
      const org = await organization();
      const email = `${uniqueName('guest')}@example.com`;
      const answer = await org.as(actor, 'POST', '/team/invite', { body: { email, role } });
      t.is(answer.status, may ? 201 : 403, answer.text);
      const rows = await platform().db.query('select role from members where email = $1', [email]);
      t.deepEqual(rows, may ? [{ role }] : []);
    });

    test(`${actor} ${may ? 'may' : 'may not'} send the invite of a ${role} again`, async (t) => {
      const org = await organization();
      const invited = await insertMember(platform(), org.id, role, 'pending');
      const answer = await org.as(actor, 'POST', `/team/members/${invited.id}/resend`);
      t.is(answer.status, may ? 200 : 403, answer.text);
    });

    for (const status of ['active', 'pending'] as const) {
      test(`${actor} ${may ? 'may' : 'may not'} remove a ${role} who is ${status}`, async (t) => {
        const org = await organization();
        const member = await insertMember(platform(), org.id, role, status);
        const answer = await org.as(actor, 'DELETE', `/team/members/${member.id}`);
        t.is(answer.status, may ? 204 : 403, answer.text);
        t.is(await roleOf(platform(), member.id), may ? undefined : role);
      });

      test(`${actor} makes of a ${role} who is ${status} only what both roles allow`, async (t) => {
        const org = await organization();
        const member = await insertMember(platform(), org.id, role, status);
        for (const wanted of everyRole) {
          await platform().db.transaction(
            (tx) => tx.query('update members set role = $2 where id = $1', [member.id, role]),
            actingAs({ type: 'system' }),
          );
          const allowed = may && mayManage[actor].includes(wanted);
          const answer = await org.as(actor, 'PATCH', `/team/members/${member.id}/role`, { body: { role: wanted } });
          t.is(answer.status, allowed ? 200 : 403, `to ${wanted}: ${answer.text}`);
          t.is(await roleOf(platform(), member.id), allowed ? wanted : role);
        }
      });
    }
  }

  const administers = actor === 'admin' || actor === 'owner';

  test.serial(`${actor} ${administers ? 'may' : 'may not'} rename the organization`, async (t) => {
    const org = await organization();
    const name = uniqueName('name');
    const answer = await org.as(actor, 'PATCH', '/team/orgs/current', { body: { org_name: name } });
    t.is(answer.status, administers ? 200 : 403);
    const rows = await platform().db.query('select from organizations where name = $1', [name]);
    t.is(rows.length, administers ? 1 : 0);
  });

  test(`${actor} ${administers ? 'may' : 'may not'} read the audit log`, async (t) => {
    const org = await organization();
    t.is((await org.as(actor, 'GET', '/team/audit-log')).status, administers ? 200 : 403);
  });

  test(`${actor} may see the members`, async (t) => {
    const org = await organization();
    const answer = await org.as(actor, 'GET', '/team/members');
    t.is(answer.status, 200);
    const emails = new Set(answer.body.map(({ email }: { email: string }) => email));
    t.true(everyRole.every((role) => emails.has(org.members[role].email)));
  });
}

test('a refusal says which role is needed', async (t) => {
  const org = await organization();
  const answer = await org.as('developer', 'GET', '/team/audit-log');
  t.is(answer.body.code, 'forbidden');
  t.regex(answer.body.message, /admin.*developer/);
});

test('anyone may leave, with whatever role', async (t) => {
  const leaving = await createOrganization(platform());
  for (const role of ['viewer', 'developer', 'admin'] as const) {
    const id = await memberIdOf(platform(), leaving.id, leaving.members[role].id);
    t.is((await leaving.as(role, 'DELETE', `/team/members/${id}`)).status, 204);
    t.is((await leaving.as(role, 'GET', '/team/members')).status, 404, 'who has left is a stranger');
  }
});

test('a role of one organization counts for nothing in another', async (t) => {
  const org = await organization();
  const other = await createOrganization(platform());
  const member = await insertMember(platform(), other.id, 'viewer');
  for (const role of everyRole) {
    t.is(
      (await org.as(role, 'PATCH', `/team/members/${member.id}/role`, { body: { role: 'viewer' } })).status,
      role === 'admin' || role === 'owner' ? 404 : 403,
    );
    t.is((await org.as(role, 'DELETE', `/team/members/${member.id}`)).status, 404);
    t.is(
      (await org.as(role, 'POST', `/team/members/${member.id}/resend`)).status,
      role === 'admin' || role === 'owner' ? 404 : 403,
    );
  }
  t.is(await roleOf(platform(), member.id), 'viewer');
});
