import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { type Answer, type TestUser, uniqueName } from '#test/support/client.ts';
import { type Attempt, badEmails, expectFieldRefused, expectShapeRefused, noText } from '#test/support/malformed.ts';
import { type TestOrganization, createOrganization, roleOf, tokenOfLink } from '#test/support/organization.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test, { worker: false, settings: { PLINTH_BASE_URL: 'https://plinth.example/' } });

let made: Promise<TestOrganization> | undefined;
/** The organization that all tests of this file share. */
const organization = (): Promise<TestOrganization> => (made ??= createOrganization(platform()));

const as: TestOrganization['as'] = async (...call) => (await organization()).as(...call);

const newAddress = (): string => `${uniqueName('guest')}@example.com`;
const invite = (email: string, role = 'developer'): Promise<Answer> =>
  as('admin', 'POST', '/team/invite', { body: { email, role } });
const accept = (user: TestUser, token: string): Promise<Answer> =>
  platform().client.call('POST', `/team/invite/${token}/accept`, { token: user.token });

const invited = async (role = 'developer'): Promise<{ user: TestUser; id: string; token: string }> => {
  const user = await platform().client.signUp();
  const { body } = await invite(user.email, role);
  return { user, id: body.id, token: tokenOfLink(body.invite_link) };
};

const expire = (id: string): Promise<unknown> =>
  platform().db.transaction(
    (tx) => tx.query('update members set invite_expires_at = now() where id = $1', [id]),
    systemActor,
  );

test('an invite answers its link, which ends in the token', async (t) => {
  const email = newAddress();
  const answer = await invite(email);
  t.is(answer.status, 201);
  t.deepEqual(Object.keys(answer.body).toSorted(), ['email', 'id', 'invite_link', 'role', 'status']);
  t.like(answer.body, { email, role: 'developer', status: 'pending' });
  t.regex(answer.body.invite_link, /^https:\/\/plinth\.example\/invite\/plinth_invite_[\w-]{43}$/);
});

test('the link goes to the invited address, with the organization’s name on one line', async (t) => {
  const email = newAddress();
  const name = 'Acme\u2028\u2028https://evil.example "now"';
  const made = await as('owner', 'POST', '/team/orgs', { body: { org_name: name } });
  const headers = { 'x-org-id': made.body.org_id };
  const answer = await as('owner', 'POST', '/team/invite', { headers, body: { email, role: 'viewer' } });
  const { body } = await platform().client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  const mail = body.mails.find(({ recipient }: { recipient: string }) => recipient === email);
  t.is(mail.subject, 'You are invited to an organization');
  t.true(mail.body.includes(answer.body.invite_link));
  t.true(mail.body.includes(`join "Acme https://evil.example 'now'".`), mail.body);
});

test('an accepted invite makes a member with the invited role', async (t) => {
  const { user, id, token } = await invited('admin');
  const answer = await accept(user, token);
  t.is(answer.status, 200);
  const { id: orgId } = await organization();
  t.deepEqual(answer.body, { accepted: true, org_id: orgId, role: 'admin' });
  const { body } = await platform().client.call('GET', '/team/members', {
    token: user.token,
    headers: { 'x-org-id': orgId },
  });
  t.like(
    body.find((member: { id: string }) => member.id === id),
    { email: user.email, role: 'admin', status: 'active' },
  );
});

test('before the invite is accepted, the organization is closed', async (t) => {
  const { user } = await invited('admin');
  const headers = { 'x-org-id': (await organization()).id };
  t.is((await platform().client.call('GET', '/team/members', { token: user.token, headers })).status, 404);
  t.is((await platform().client.call('GET', '/team/orgs', { token: user.token })).body.length, 1);
});

test('the case of an invited address does not matter', async (t) => {
  const user = await platform().client.signUp();
  const { body } = await invite(` ${user.email.toUpperCase()} `);
  t.is((await accept(user, tokenOfLink(body.invite_link))).status, 200);
  const again = await invite(user.email);
  t.is(again.status, 409);
});

test('a link lets in only the address that it was sent to, and is not used up by others', async (t) => {
  const { user, token } = await invited();
  const thief = await platform().client.signUp();
  for (const other of [thief, (await organization()).members.owner]) {
    const answer = await accept(other, token);
    t.is(answer.status, 403);
    t.is(answer.body.code, 'forbidden');
    t.false(answer.text.includes(user.email), 'the invited address is not told');
  }
  t.is((await accept(user, token)).status, 200);
});

test('who uses a link twice is a member already', async (t) => {
  const { user, token } = await invited();
  t.is((await accept(user, token)).status, 200);
  const again = await accept(user, token);
  t.is(again.status, 409);
  t.is(again.body.code, 'already_member');
  t.is((await accept(await platform().client.signUp(), token)).status, 403);
});

test('of twenty acceptances at once one wins', async (t) => {
  const { user, token } = await invited();
  const answers = await Promise.all(Array.from({ length: 20 }, () => accept(user, token)));
  t.deepEqual(statusCounts(answers), { 200: 1, 409: 19 });
});

test('a link of more than seven days is refused, until it is sent again', async (t) => {
  const { user, id, token } = await invited();
  const [row] = await platform().db.query<{ seconds: number }>(
    'select extract(epoch from invite_expires_at - now())::int as seconds from members where id = $1',
    [id],
  );
  t.true(row !== undefined && row.seconds > 7 * 86_400 - 100 && row.seconds <= 7 * 86_400);
  await expire(id);
  const late = await accept(user, token);
  t.is(late.status, 410);
  t.is(late.body.code, 'expired');
  const resent = await as('admin', 'POST', `/team/members/${id}/resend`);
  t.is((await accept(user, tokenOfLink(resent.body.invite_link))).status, 200);
});

test('an invite that is sent again gets a new link, and the old one dies', async (t) => {
  const { user, id, token } = await invited();
  const resent = await as('admin', 'POST', `/team/members/${id}/resend`);
  t.is(resent.status, 200);
  t.like(resent.body, { id, email: user.email, role: 'developer', status: 'pending' });
  const fresh = tokenOfLink(resent.body.invite_link);
  t.not(fresh, token);
  t.is((await accept(user, token)).status, 404);
  t.is((await accept(user, fresh)).status, 200);
});

test('an accepted invite cannot be sent again', async (t) => {
  const { user, id, token } = await invited();
  await accept(user, token);
  const resent = await as('admin', 'POST', `/team/members/${id}/resend`);
  t.is(resent.status, 409);
  t.is(resent.body.code, 'already_member');
});

test('an invite that was taken back lets nobody in', async (t) => {
  const { user, id, token } = await invited();
  t.is((await as('admin', 'DELETE', `/team/members/${id}`)).status, 204);
  t.is((await accept(user, token)).status, 404);
  t.is((await as('admin', 'POST', `/team/members/${id}/resend`)).status, 404);
});

test('a removed member does not come back by the old link, but by a new invite', async (t) => {
  const { user, id, token } = await invited();
  await accept(user, token);
  t.is((await as('admin', 'DELETE', `/team/members/${id}`)).status, 204);
  t.is((await accept(user, token)).status, 404);
  const again = await invite(user.email, 'viewer');
  t.is(again.status, 201);
  t.is((await accept(user, tokenOfLink(again.body.invite_link))).body.role, 'viewer');
});

test('a role that is changed before acceptance is the role of the member', async (t) => {
  const { user, id, token } = await invited('developer');
  await as('admin', 'PATCH', `/team/members/${id}/role`, { body: { role: 'viewer' } });
  t.is((await accept(user, token)).body.role, 'viewer');
  t.is(await roleOf(platform(), id), 'viewer');
});

test('members and invited addresses cannot be invited again', async (t) => {
  const email = newAddress();
  t.is((await invite(email)).status, 201);
  for (const again of [email, email.toUpperCase(), (await organization()).members.owner.email]) {
    const answer = await invite(again);
    t.is(answer.status, 409);
    t.is(answer.body.code, 'already_member');
  }
});

test('one address may be invited by several organizations', async (t) => {
  const other = await createOrganization(platform());
  const { user, token } = await invited();
  const { body } = await other.as('owner', 'POST', '/team/invite', { body: { email: user.email, role: 'owner' } });
  t.is((await accept(user, token)).body.org_id, (await organization()).id);
  t.is((await accept(user, tokenOfLink(body.invite_link))).body.org_id, other.id);
});

test('of twenty invites of one address at once one wins', async (t) => {
  const email = newAddress();
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => invite(i % 2 === 0 ? email : email.toUpperCase())),
  );
  t.deepEqual(statusCounts(answers), { 201: 1, 409: 19 });
});

test('a repeated request shows the invite, but not its link again', async (t) => {
  const email = newAddress();
  const headers = { 'idempotency-key': uniqueName('key') };
  const body = { email, role: 'viewer' };
  const first = await as('admin', 'POST', '/team/invite', { headers, body });
  const second = await as('admin', 'POST', '/team/invite', { headers, body });
  t.is(first.status, 201);
  t.is(second.status, 201);
  t.is(second.headers.get('idempotent-replayed'), 'true');
  const { invite_link: _link, ...rest } = first.body;
  t.deepEqual(second.body, rest);
  const kept = await platform().db.query<{ body: string }>('select body from idempotency_keys where key = $1', [
    headers['idempotency-key'],
  ]);
  t.false(kept[0]?.body.includes('plinth_invite_'));
});

test('tokens that name no invite are 404', async (t) => {
  const { user, token } = await invited();
  const wrong = [
    token.slice(0, -1),
    token.toLowerCase(),
    'plinth_invite_',
    'x',
    '%27%20or%20true--',
    'x'.repeat(201),
    user.id,
    user.token,
    '%F0%9F%94%91',
  ];
  for (const other of wrong) {
    const answer = await accept(user, other);
    t.is(answer.status, 404, other);
    t.is(answer.body.code, 'not_found');
  }
});

test('malformed invites are refused field by field', async (t) => {
  const org = await organization();
  const attempt: Attempt = {
    client: platform().client,
    path: '/team/invite',
    headers: { authorization: `Bearer ${org.members.owner.token}`, 'x-org-id': org.id },
    good: { email: newAddress(), role: 'viewer' },
  };
  await expectShapeRefused(t, attempt);
  await expectFieldRefused(t, attempt, 'email', [...noText, ...badEmails]);
  await expectFieldRefused(t, attempt, 'role', [...noText, '', 'Owner', 'root', 'owner\0', '__proto__', 'constructor']);
  t.is((await invite(attempt.good['email'] as string)).status, 201);
});
