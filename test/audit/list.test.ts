import test from 'ava';
import { type TestOrganization, createOrganization } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });

interface Entry {
  readonly id: string;
  readonly target_id: string;
  readonly after: { readonly name?: string } | null;
  readonly created_at: string;
}

const read = async (org: TestOrganization, query = ''): Promise<{ entries: Entry[]; total: number }> => {
  const { status, body, text } = await org.as('admin', 'GET', `/team/audit-log${query}`);
  if (status !== 200) throw new Error(text);
  return body;
};

const memberIds = async (org: TestOrganization): Promise<string[]> => {
  const rows = await platform().db.query<{ id: string }>('select id from members where org_id = $1', [org.id]);
  return rows.map(({ id }) => id);
};

const renameTimes = async (org: TestOrganization, times: number): Promise<void> => {
  for (let i = 1; i <= times; i += 1) {
    await org.as('owner', 'PATCH', '/team/orgs/current', { body: { org_name: `Name ${i}` } });
  }
};

test('an entry has the fields of the contract', async (t) => {
  const org = await createOrganization(platform());
  const headers = { 'x-request-id': 'my-request', 'user-agent': 'tester/1' };
  await org.as('owner', 'PATCH', '/team/orgs/current', { headers, body: { org_name: 'Acme' } });
  const { entries } = await read(org, '?limit=1');
  const [entry] = entries;
  const { id, created_at, before, ...rest } = entry as Entry & { before: Record<string, unknown> };
  const { owner } = org.members;
  t.regex(id, /^[\da-f-]{36}$/);
  t.regex(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.deepEqual(Object.keys(before), ['name']);
  t.deepEqual(rest as unknown, {
    actor: { type: 'user', id: owner.id, email: owner.email },
    action: 'organization.update',
    project_id: null,
    target_type: 'organization',
    target_id: org.id,
    after: { name: 'Acme' },
    ip: '127.0.0.1',
    user_agent: 'tester/1',
    request_id: 'my-request',
  });
});

test('the newest entry comes first', async (t) => {
  const org = await createOrganization(platform());
  await renameTimes(org, 5);
  const { entries } = await read(org);
  t.deepEqual(
    entries.slice(0, 5).map(({ after }) => after?.name),
    ['Name 5', 'Name 4', 'Name 3', 'Name 2', 'Name 1'],
  );
  const times = entries.map(({ created_at }) => created_at);
  t.deepEqual(times, times.toSorted().toReversed());
});

test('pages follow each other without a gap or a double', async (t) => {
  const org = await createOrganization(platform());
  await renameTimes(org, 10);
  const whole = await read(org, '?limit=200');
  t.is(whole.total, whole.entries.length);
  const pages: Entry[] = [];
  for (let offset = 0; offset < whole.total; offset += 4) {
    const page = await read(org, `?limit=4&offset=${offset}`);
    t.is(page.total, whole.total);
    t.is(page.entries.length, Math.min(4, whole.total - offset));
    pages.push(...page.entries);
  }
  t.deepEqual(pages, whole.entries);
  t.deepEqual(await read(org, `?offset=${whole.total}`), { entries: [], total: whole.total });
});

test('fifty entries are answered unless another number is asked for', async (t) => {
  const org = await createOrganization(platform());
  await platform().db.query(
    `insert into audit_entries (org_id, actor, action, target_type, target_id)
     select $1, '{"type":"system"}', 'organization.update', 'organization', $1 from generate_series(1, 250)`,
    [org.id],
  );
  t.is((await read(org)).entries.length, 50);
  t.is((await read(org, '?limit=200')).entries.length, 200);
  t.true((await read(org)).total > 250);
});

test('a page out of range is refused, not clamped', async (t) => {
  const org = await createOrganization(platform());
  for (const query of [
    'limit=0',
    'limit=201',
    'limit=-1',
    'limit=1.5',
    'limit=x',
    'limit=1e9',
    'limit=NaN',
    'offset=-1',
    'offset=x',
    'offset=99999999999',
    'limit=1&limit=2',
  ]) {
    const answer = await org.as('admin', 'GET', `/team/audit-log?${query}`);
    t.is(answer.status, 400, query);
    t.is(answer.body.code, 'validation_failed');
  }
  t.is((await org.as('admin', 'GET', '/team/audit-log?unknown=1')).status, 200);
});

test('each organization sees its own entries only', async (t) => {
  const [one, other] = await Promise.all([createOrganization(platform()), createOrganization(platform())]);
  await renameTimes(one, 3);
  const { entries } = await read(other, '?limit=200');
  t.false(entries.some(({ after }) => after?.name?.startsWith('Name')));
  const known = new Set([other.id, ...(await memberIds(other))]);
  t.true(entries.length >= 5);
  for (const { target_id } of entries) t.true(known.has(target_id));
});

test('entries are found by project, actor, action and time', async (t) => {
  const org = await createOrganization(platform());
  await renameTimes(org, 3);
  const invite = (as: 'owner' | 'admin', email: string) =>
    org.as(as, 'POST', '/team/invite', { body: { email, role: 'viewer' } });
  await invite('admin', 'one@example.com');
  const found = async (query: string): Promise<number> => (await read(org, `?${query}`)).total;
  const { admin, owner } = org.members;
  t.is(await found(`actor=${admin.id}`), 1);
  t.is(await found(`actor=${encodeURIComponent(admin.email)}`), 1);
  t.is(await found('action=member.invite'), 1);
  t.is(
    await found('action=organization.'),
    (await found('action=organization.update')) + (await found('action=organization.create')),
  );
  t.is(await found('action=organization'), 0);
  t.is(await found('action=%25'), 0);
  t.is(await found(`action=organization.update&actor=${owner.id}`), 3);
  t.is(await found(`action=organization.update&actor=${admin.id}`), 0);
  t.is(await found(`project_id=${crypto.randomUUID()}`), 0);
  const { entries } = await read(org, '?action=organization.update');
  const [newest, , oldest] = entries;
  t.is(await found(`action=organization.update&since=${newest?.created_at}`), 1);
  t.is(await found(`action=organization.update&until=${oldest?.created_at}`), 0);
  const page = await read(org, '?action=organization.update&limit=1&offset=1');
  t.deepEqual([page.total, page.entries.length, page.entries[0]?.id], [3, 1, entries[1]?.id]);
  for (const query of ['since=yesterday', 'project_id=x', 'actor=', `action=${'x'.repeat(101)}`])
    t.is((await org.as('admin', 'GET', `/team/audit-log?${query}`)).status, 400, query);
});
