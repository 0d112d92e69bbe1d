import test, { type ExecutionContext } from 'ava';
import { type Answer, type CallOptions, uniqueName } from '#test/support/client.ts';
import { type TestOrganization, createOrganization, memberIdOf, tokenOfLink } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

interface Entry {
  readonly org_id: string;
  readonly project_id: string | null;
  readonly actor: Readonly<Record<string, unknown>>;
  readonly action: string;
  readonly target_type: string;
  readonly target_id: string;
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
  readonly ip: string;
  readonly user_agent: string;
  readonly request_id: string;
}

const agent = 'plinth-tests/1.0 (audit)';

const entriesOf = (requestId: string): Promise<Entry[]> =>
  platform().db.query('select * from audit_entries where request_id = $1 order by created_at', [
    requestId,
  ] as const) as unknown as Promise<Entry[]>;

interface Noted {
  readonly answer: Answer;
  readonly entries: Entry[];
}

/** Makes a call and reads what the audit log says of it. */
const noted = async (call: (options: CallOptions) => Promise<Answer>, options: CallOptions = {}): Promise<Noted> => {
  const requestId = uniqueName('req');
  const headers = { ...options.headers, 'user-agent': agent, 'x-request-id': requestId };
  const answer = await call({ ...options, headers });
  return { answer, entries: await entriesOf(requestId) };
};

const as =
  (org: TestOrganization, role: keyof TestOrganization['members'], method: string, path: string) =>
  (options: CallOptions): Promise<Answer> =>
    org.as(role, method, path, options);

/** One entry, by that user, from here, with nothing but what changed. */
const expectEntry = (
  t: ExecutionContext,
  { answer, entries }: Noted,
  by: { readonly id: string; readonly email: string },
  expected: Partial<Entry>,
): void => {
  t.true(answer.status < 300, answer.text);
  t.is(entries.length, 1);
  const [entry] = entries;
  t.deepEqual(entry?.actor, { type: 'user', id: by.id, email: by.email });
  t.is(entry?.ip, '127.0.0.1');
  t.is(entry?.user_agent, agent);
  for (const [field, value] of Object.entries(expected)) t.deepEqual(entry?.[field as keyof Entry], value, field);
};

test('a sign-up notes its organization and its owner, by the new user', async (t) => {
  const email = `${uniqueName('user')}@example.com`;
  const { answer, entries } = await noted((options) => platform().client.call('POST', '/auth/signup', options), {
    body: { email, password: 'correct horse battery' },
  });
  t.is(answer.status, 201);
  t.deepEqual(entries.map(({ action }) => action).toSorted(), ['member.create', 'organization.create']);
  for (const entry of entries) {
    t.like(entry, { actor: { type: 'user', id: answer.body.user.id, email }, ip: '127.0.0.1', user_agent: agent });
    t.is(entry.before, null);
  }
});

test('making and renaming an organization is noted', async (t) => {
  const org = await createOrganization(platform());
  const { owner } = org.members;
  const made = await noted(as(org, 'owner', 'POST', '/team/orgs'), { body: { org_name: 'Acme' } });
  t.deepEqual(made.entries.map(({ action }) => action).toSorted(), ['member.create', 'organization.create']);
  t.true(made.entries.every(({ org_id }) => org_id === made.answer.body.org_id));
  const renamed = await noted(as(org, 'owner', 'PATCH', '/team/orgs/current'), {
    headers: { 'x-org-id': made.answer.body.org_id },
    body: { org_name: 'Acme Ltd' },
  });
  expectEntry(t, renamed, owner, {
    org_id: made.answer.body.org_id,
    action: 'organization.update',
    target_type: 'organization',
    target_id: made.answer.body.org_id,
    before: { name: 'Acme' },
    after: { name: 'Acme Ltd' },
  });
});

test('a change that changes nothing is not noted', async (t) => {
  const org = await createOrganization(platform());
  const { body } = await org.as('owner', 'GET', '/team/orgs');
  const { answer, entries } = await noted(as(org, 'owner', 'PATCH', '/team/orgs/current'), {
    body: { org_name: body[0].org_name },
  });
  t.is(answer.status, 200);
  t.deepEqual(entries, []);
});

test('an invite is noted from the sending to the acceptance, without its secret', async (t) => {
  const org = await createOrganization(platform());
  const guest = await platform().client.signUp();
  const sent = await noted(as(org, 'admin', 'POST', '/team/invite'), { body: { email: guest.email, role: 'viewer' } });
  const { id } = sent.answer.body;
  expectEntry(t, sent, org.members.admin, { org_id: org.id, action: 'member.invite', target_id: id, before: null });
  t.like(sent.entries[0]?.after, { email: guest.email, role: 'viewer', status: 'pending' });
  const again = await noted(as(org, 'admin', 'POST', `/team/members/${id}/resend`));
  expectEntry(t, again, org.members.admin, { action: 'member.resend', target_id: id });
  t.deepEqual(Object.keys(again.entries[0]?.after ?? {}), ['invite_expires_at']);
  const token = tokenOfLink(again.answer.body.invite_link);
  const accepted = await noted((options) =>
    platform().client.call('POST', `/team/invite/${token}/accept`, { ...options, token: guest.token }),
  );
  expectEntry(t, accepted, guest, { org_id: org.id, action: 'member.accept', target_id: id });
  t.is(accepted.entries[0]?.before?.['status'], 'pending');
  t.is(accepted.entries[0]?.after?.['status'], 'active');
  const entries = [...sent.entries, ...again.entries, ...accepted.entries];
  t.false(/hash|plinth_invite/.test(JSON.stringify(entries)));
});

test('a change of role and a removal are noted with what was before', async (t) => {
  const org = await createOrganization(platform());
  const id = await memberIdOf(platform(), org.id, org.members.viewer.id);
  const changed = await noted(as(org, 'admin', 'PATCH', `/team/members/${id}/role`), { body: { role: 'developer' } });
  expectEntry(t, changed, org.members.admin, {
    action: 'member.update',
    target_type: 'member',
    target_id: id,
    before: { role: 'viewer' },
    after: { role: 'developer' },
  });
  const removed = await noted(as(org, 'owner', 'DELETE', `/team/members/${id}`));
  expectEntry(t, removed, org.members.owner, { action: 'member.delete', target_id: id, after: null });
  t.like(removed.entries[0]?.before, { email: org.members.viewer.email, role: 'developer', status: 'active' });
});

test('projects, keys and functions are noted by whom, without what they hide', async (t) => {
  const org = await createOrganization(platform());
  const { owner, developer } = org.members;
  const slug = uniqueName('p');
  const made = await noted(as(org, 'developer', 'POST', '/projects'), {
    body: { name: 'Blog', slug, org_id: org.id },
  });
  t.is(made.answer.status, 201, made.answer.text);
  const byUser = made.entries.filter(({ actor }) => actor['type'] === 'user');
  t.deepEqual(byUser.map(({ action }) => action).toSorted(), ['api_key.create', 'api_key.create', 'project.create']);
  t.true(byUser.every(({ actor }) => actor['id'] === developer.id));
  const path = `/projects/${made.answer.body.id}`;
  const renamed = await noted(as(org, 'developer', 'PATCH', path), { body: { name: 'Journal' } });
  expectEntry(t, renamed, developer, {
    action: 'project.update',
    target_id: made.answer.body.id,
    project_id: made.answer.body.id,
    before: { name: 'Blog' },
    after: { name: 'Journal' },
  });
  const key = await noted(as(org, 'owner', 'POST', `${path}/api-keys`), { body: { name: 'ci', kind: 'secret' } });
  expectEntry(t, key, owner, { action: 'api_key.create', target_id: key.answer.body.id, before: null });
  t.is(key.entries[0]?.after?.['hash'], undefined);
  const cut = await noted(as(org, 'owner', 'DELETE', `${path}/api-keys/${key.answer.body.id}`));
  expectEntry(t, cut, owner, { action: 'api_key.delete', target_id: key.answer.body.id, after: null });
  t.is(cut.entries[0]?.before?.['hash'], undefined);
  const fields = { name: 'hello', language: 'javascript', env_vars: { SECRET: 'hidden-value' } };
  const code = `export default () => 'hi'; // ${'x'.repeat(2000)}`;
  const deployed = await noted(as(org, 'developer', 'POST', `${path}/functions`), { body: { ...fields, code } });
  expectEntry(t, deployed, developer, { action: 'function.create', target_id: deployed.answer.body.id, before: null });
  t.regex(String(deployed.entries[0]?.after?.['code']), /^sha256:[\da-f]{64}$/, 'long texts are noted by their hash');
  const everything = JSON.stringify([...made.entries, ...key.entries, ...cut.entries, ...deployed.entries]);
  t.notRegex(everything, /hidden-value|env_sealed|data_key|compiled|"hash"/);
  t.false(everything.includes(made.answer.body.api_key));
  t.false(everything.includes(key.answer.body.api_key));
  const deleted = await noted(as(org, 'owner', 'DELETE', path));
  const gone = deleted.entries.filter(({ target_type }) => target_type === 'project');
  t.is(gone.length, 1);
  t.like(gone[0], { action: 'project.delete', actor: { type: 'user', id: owner.id, email: owner.email } });
});

test('what is refused is not noted', async (t) => {
  const org = await createOrganization(platform());
  const id = await memberIdOf(platform(), org.id, org.members.owner.id);
  const refused: readonly (readonly [Promise<Noted>, number])[] = [
    [noted(as(org, 'viewer', 'POST', '/team/invite'), { body: { email: 'a@example.com', role: 'viewer' } }), 403],
    [noted(as(org, 'admin', 'PATCH', `/team/members/${id}/role`), { body: { role: 'viewer' } }), 403],
    [noted(as(org, 'owner', 'DELETE', `/team/members/${id}`)), 409],
    [noted(as(org, 'owner', 'PATCH', '/team/orgs/current'), { body: { org_name: '' } }), 400],
    [noted(as(org, 'owner', 'POST', '/team/invite/nothing/accept')), 404],
    [
      noted(as(org, 'owner', 'POST', '/team/invite'), {
        body: { email: org.members.viewer.email.toUpperCase(), role: 'viewer' },
      }),
      409,
    ],
  ];
  for (const [attempt, status] of refused) {
    const { answer, entries } = await attempt;
    t.is(answer.status, status, answer.text);
    t.deepEqual(entries, []);
  }
});

test('a repeated request with the same key is noted once', async (t) => {
  const org = await createOrganization(platform());
  const headers = { 'idempotency-key': uniqueName('key') };
  const body = { email: `${uniqueName('guest')}@example.com`, role: 'viewer' };
  const invite = as(org, 'admin', 'POST', '/team/invite');
  const first = await noted(invite, { headers, body });
  const second = await noted(invite, { headers, body });
  t.is(first.entries.length, 1);
  t.is(second.answer.status, 201);
  t.deepEqual(second.entries, []);
});

test('a long or strange user agent is kept, shortened', async (t) => {
  const org = await createOrganization(platform());
  const requestId = uniqueName('req');
  const strange = `"}'; drop table audit_entries; -- \\u0000 é ${'x'.repeat(400)}`;
  const headers = { 'user-agent': strange, 'x-request-id': requestId };
  const answer = await org.as('owner', 'PATCH', '/team/orgs/current', { headers, body: { org_name: 'Acme' } });
  t.is(answer.status, 200);
  const [entry] = await entriesOf(requestId);
  t.is(entry?.user_agent, strange.slice(0, 300));
});
