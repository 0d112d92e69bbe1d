import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { untilBlocked } from '#test/support/blocked.ts';
import type { Answer, TestUser } from '#test/support/client.ts';
import { addFactor, codeNow, wrongCode } from '#test/support/factor.ts';
import { isError } from '#test/support/is-error.ts';
import { createOrganization, memberIdOf, ownOrgId, tokenOfLink } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const remove = (user: Pick<TestUser, 'token'>, password: unknown): Promise<Answer> =>
  platform().client.call('DELETE', '/auth/me', { token: user.token, body: { password } });

test('an account is deleted with the organizations and projects that are nobody else’s', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const orgId = await ownOrgId(platform(), user);
  const project = await client.createProject(user);
  isError(t, await remove(user, 'wrong'), 401, 'invalid_credentials');
  t.is((await remove(user, user.password)).status, 204);
  t.is((await client.call('GET', '/auth/me', { token: user.token })).status, 401);
  const refresh = await client.call('POST', '/auth/refresh', { body: { refresh_token: user.refreshToken } });
  t.is(refresh.status, 401);
  const body = { email: user.email, password: user.password };
  t.is((await client.call('POST', '/auth/login', { body })).status, 401);
  t.is((await client.call('GET', '/v1/rest/anything', { key: project.key })).status, 401);
  const [row] = await db.query('select deleted_at is not null as deleted from organizations where id = $1', [orgId]);
  t.deepEqual(row, { deleted: true });
  const [gone] = await db.query('select retired_at is not null as retired from projects where id = $1', [project.id]);
  t.deepEqual(gone, { retired: true });
  t.is((await client.call('POST', '/auth/signup', { body })).status, 201, 'the address is free again');
});

test('an account with a second factor is deleted with a code only', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { secret } = await addFactor(platform(), user);
  const withCode = (code: string): Promise<Answer> =>
    client.call('DELETE', '/auth/me', { token: user.token, body: { password: user.password, code } });
  isError(t, await remove(user, user.password), 401, 'factor_required');
  isError(t, await withCode(wrongCode(secret)), 401, 'invalid_credentials');
  t.is((await client.call('GET', '/auth/me', { token: user.token })).status, 200);
  t.is((await withCode(codeNow(secret))).status, 204);
});

test('the last owner of an organization with others deletes no account before it is transferred', async (t) => {
  const org = await createOrganization(platform());
  const { owner, admin } = org.members;
  const refused = await remove(owner, owner.password);
  isError(t, refused, 409, 'last_owner');
  t.is(refused.body.details[0].org_id, org.id);
  const memberId = await memberIdOf(platform(), org.id, admin.id);
  const body = { member_id: memberId };
  t.is((await org.as('owner', 'POST', '/team/orgs/current/transfer', { body })).status, 200);
  t.is((await remove(owner, owner.password)).status, 204);
  t.is((await org.as('admin', 'GET', '/team/members')).body.length, 3);
});

test('the invites of a deleted account die, what it made for others stays', async (t) => {
  const { client, db } = platform();
  const org = await createOrganization(platform());
  const maker = await client.signUp();
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into members (id, org_id, user_id, email, role, status)
         values (gen_random_uuid(), $1, $2, $3, 'admin', 'active')`,
        [org.id, maker.id, maker.email],
      ),
    systemActor,
  );
  const project = await client.createProject(maker, { org_id: org.id });
  const guest = await client.signUp();
  const headers = { 'x-org-id': org.id };
  const body = { email: guest.email, role: 'viewer' };
  const invited = await client.call('POST', '/team/invite', { token: maker.token, headers, body });
  t.is((await remove(maker, maker.password)).status, 204);
  const path = `/team/invite/${tokenOfLink(invited.body.invite_link)}/accept`;
  t.is((await client.call('POST', path, { token: guest.token })).status, 404);
  t.is((await org.as('owner', 'GET', `/projects/${project.id}`)).status, 200);
  const entries = (await org.as('owner', 'GET', '/team/audit-log?limit=200')).body.entries as { action: string }[];
  t.true(entries.some(({ action }) => action === 'user.delete'));
});

test.serial('a password that is changed at that moment keeps the account', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const { running } = await db.transaction(async (tx) => {
    await tx.query('select from users where id = $1 for no key update', [user.id]);
    const started = remove(user, user.password);
    await untilBlocked(db);
    await tx.query(`update users set password_hash = 'changed' where id = $1`, [user.id]);
    return { running: started };
  });
  isError(t, await running, 401, 'invalid_credentials');
  t.is((await db.query('select from users where id = $1', [user.id])).length, 1);
});
