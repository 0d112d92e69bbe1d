import test from 'ava';
import { decoyFor } from '#domain/end-users/decoys.ts';
import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import { elementsOf } from '#domain/end-users/import-elements.ts';
import type { TestProject } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { until } from '#test/support/until.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { developer, newProject, platform, project, signIn, signedUp } = useAuth(test);

/** `correct horse battery` with bcrypt of cost 5. */
const bcrypt = '$2b$05$abcdefghijklmnopqrstuuD3mHdCr44zlIZ.VZCaYRpfQhXMYnEo.';

const send = (raw: string, of = project(), headers = {}) =>
  platform().client.call('POST', `/projects/${of.id}/users/import`, { token: developer().token, raw, headers });
const importUsers = (users: readonly unknown[], of?: TestProject, headers?: object) =>
  send(JSON.stringify({ users }), of, headers);
const manage = (path: string, of = project()) =>
  platform().client.call('GET', `/projects/${of.id}${path}`, { token: developer().token });

test('users are imported with their ids, hashes and metadata, and sign in with the password that they had', async (t) => {
  const [id, email] = [crypto.randomUUID(), newEmail()];
  const user = { id, email: email.toUpperCase(), email_verified: true, password_hash: bcrypt };
  const given = { ...user, user_metadata: { name: 'Ada' }, app_metadata: { plan: 'gold', provider: 'forged' } };
  const { status, body } = await importUsers([{ ...given, created_at: '2020-02-03T04:05:06Z' }]);
  t.deepEqual([status, body], [200, { imported: 1, skipped: 0, failed: 0, errors: [] }]);
  const shown = (await manage(`/users/${id}`)).body;
  t.like(shown, {
    email,
    email_verified: true,
    user_metadata: { name: 'Ada' },
    created_at: '2020-02-03T04:05:06.000Z',
  });
  t.deepEqual(shown.app_metadata, { plan: 'gold', provider: 'email', providers: ['email'] });
  t.is((await signIn(email, 'wrong horse battery')).body.error_code, 'invalid_credentials');
  const first = await signIn(email);
  t.is(first.status, 200);
  t.is(first.body.user.id, id);
});

test('the imported hash is replaced at the first right password, and the sign-in after it works', async (t) => {
  const of = await newProject();
  const email = newEmail();
  await importUsers([{ email, password_hash: bcrypt }], of);
  const foreign = async (): Promise<unknown> =>
    (await useDatabase(platform(), of).query('auth', 'select sum(users)::int as n from auth.foreign_hashes'))[0]?.['n'];
  t.is(await foreign(), 1);
  await signIn(email, 'wrong horse battery', of);
  t.is(await foreign(), 1);
  const tries = await Promise.all([1, 2, 3].map(() => signIn(email, password, of)));
  t.true(tries.some(({ status }) => status === 200));
  t.is(await foreign(), 0);
  t.is((await signIn(email, password, of)).status, 200);
});

test('who exists already, or comes twice, is skipped and stays as they are', async (t) => {
  const session = await signedUp();
  const email = newEmail();
  const { body } = await importUsers([
    { email: session.user.email, password_hash: bcrypt },
    { email, user_metadata: { n: 1 } },
    { email, user_metadata: { n: 2 } },
    { id: session.user.id, email: newEmail() },
  ]);
  t.deepEqual(body, { imported: 1, skipped: 3, failed: 0, errors: [] });
  t.is((await signIn(session.user.email)).status, 200);
  const { users } = (await manage(`/users?q=${email}`)).body;
  t.deepEqual(
    users.map((user: { user_metadata: unknown }) => user.user_metadata),
    [{ n: 1 }],
  );
});

test('users that cannot be imported are named by their index and the others are imported', async (t) => {
  const { body } = await importUsers([
    { email: 'no address' },
    { email: newEmail(), password_hash: 'plain text' },
    { email: newEmail(), unknown_field: 1 },
    { email: newEmail() },
    { email: newEmail(), user_metadata: { big: 'x'.repeat(5000) } },
    { email: newEmail(), user_metadata: { nul: '\0' } },
    { email: newEmail(), created_at: 'yesterday' },
    { email: newEmail(), user_metadata: { huge: 'x'.repeat(40_000) } },
    7,
    null,
    { id: 'x', email: newEmail() },
  ]);
  t.like(body, { imported: 1, skipped: 0, failed: 10 });
  t.deepEqual(body.errors, [
    { index: 0, code: 'email_address_invalid' },
    { index: 1, code: 'hash_not_supported' },
    { index: 2, code: 'validation_failed' },
    { index: 4, code: 'validation_failed' },
    { index: 5, code: 'validation_failed' },
    { index: 6, code: 'validation_failed' },
    { index: 7, code: 'payload_too_large' },
    { index: 8, code: 'validation_failed' },
    { index: 9, code: 'validation_failed' },
    { index: 10, code: 'validation_failed' },
  ]);
});

for (const [what, raw, code] of [
  ['no JSON', '{"users": [{"email"}]}', 'invalid_json'],
  ['JSON that ends too early', '{"users": [{"email": "a@example.com"}', 'validation_failed'],
  ['a list', '[]', 'validation_failed'],
  ['no users', '{"users": []}', 'validation_failed'],
  ['another field', '{"users": [], "more": 1}', 'validation_failed'],
  ['100,001 users', `{"users": [${'{},'.repeat(100_000)}{}]}`, 'validation_failed'],
  ['nothing', '', 'validation_failed'],
] as const) {
  test(`a body of ${what} is refused whole`, async (t) => isError(t, await send(raw), 400, code));
}

test('bytes that are no UTF-8 are refused', async (t) => {
  const raw = Buffer.from('7b227573657273223a5b7b22656d61696c223a22ff40782e64652227d5d7d', 'hex');
  const path = `/projects/${project().id}/users/import`;
  isError(t, await platform().client.call('POST', path, { token: developer().token, raw }), 400, 'invalid_json');
});

test('the elements of a list are found beside brackets and quotes in strings', (t) => {
  const elements = ['{"a": "]}\\"[{"}', '[1, [2]]', '"\\\\"', '  3 ', '{"x": {"y": "\\\\\\""}}'];
  const text = Buffer.from(` {\n"users" : [${elements.join(',')}] } `);
  t.deepEqual(
    elementsOf(text)?.map(({ start, end }) => text.toString('utf8', start, end)),
    elements,
  );
  for (const wrong of ['{"users": [1', '{"users": [1}', '{"users": ["a}', '{"users": [1]} x', '{"users": 1}', '{}']) {
    t.is(elementsOf(Buffer.from(wrong)), null, wrong);
  }
});

test('an import is a job that can be waited for elsewhere, and the same key imports once', async (t) => {
  const headers = { prefer: 'respond-async', 'idempotency-key': crypto.randomUUID() };
  const users = [{ email: newEmail() }];
  const first = await importUsers(users, project(), headers);
  t.is(first.status, 202);
  const second = await importUsers(users, project(), headers);
  t.is(second.body.job_id, first.body.job_id);
  t.is((await importUsers([{ email: newEmail() }], project(), headers)).status, 422);
  const job = await until(async () => {
    const { body } = await manage(`/jobs/${first.body.job_id}`);
    return body.status === 'succeeded' ? body : null;
  });
  t.like(job, { type: 'users.import', result: { imported: 1, skipped: 0 } });
  t.deepEqual(await platform().db.query('select from user_import_parts where job_id = $1', [job.id]), []);
  const entries = await platform().db.query('select from audit_entries where action = $1 and target_id = $2', [
    'end_user.import',
    job.id,
  ]);
  t.is(entries.length, 1);
});

test('what a trigger of the project refuses is named, and the others of the same part are imported', async (t) => {
  const of = await newProject();
  await useDatabase(platform(), of).query(
    'owner',
    `create function public.picky() returns trigger language plpgsql as $$ begin
       if new.email like 'bad%' then raise exception 'no'; end if; return new; end $$`,
    'create trigger picky before insert on auth.users for each row execute function public.picky()',
  );
  const names = ['a', 'bad1', 'c', 'd', 'bad2', 'f'];
  const { body } = await importUsers(
    names.map((name) => ({ email: `${name}@example.com` })),
    of,
  );
  t.like(body, { imported: 4, skipped: 0, failed: 2 });
  t.deepEqual(
    body.errors,
    [1, 4].map((index) => ({ index, code: 'unexpected_failure' })),
  );
});

test.serial('an import that would exceed the plan imports nobody', async (t) => {
  const free = await platform().client.createProject(developer());
  await importUsers([{ email: newEmail() }], free);
  const all = Array.from({ length: 100_000 }, (_, index) => ({ email: `u${index}@example.com` }));
  isError(t, await importUsers(all, free), 403, 'plan_limit_exceeded');
  t.is((await manage('/users?limit=1', free)).body.total, 1);
});

test('viewers, users of the application and keys import nobody', async (t) => {
  const path = `/projects/${project().id}/users/import`;
  const body = { users: [{ email: newEmail() }] };
  const session = await signedUp();
  t.is((await platform().client.call('POST', path, { token: session.access_token, body })).status, 401);
  t.is((await platform().client.call('POST', path, { key: project().key, body })).status, 401);
  const stranger = await platform().client.signUp();
  t.is((await platform().client.call('POST', path, { token: stranger.token, body })).status, 404);
});

test('an unknown address is checked against the hashes that users have, each as often, and always the same', async (t) => {
  const shares = [
    { decoy: 'a', users: 50, all_users: 200 },
    { decoy: 'b', users: 100, all_users: 200 },
  ];
  const deps = {
    authDb: { secrets: () => Promise.resolve(shares) },
    sealer: () => ({ keyFor: () => Buffer.alloc(32) }),
  } as unknown as EndUserDeps;
  const of = { id: crypto.randomUUID(), data_key: Buffer.alloc(0) };
  const counts = new Map<string | null, number>();
  for (let n = 0; n < 2000; n += 1) {
    const decoy = await decoyFor(deps, of, `${n}@example.com`);
    counts.set(decoy, (counts.get(decoy) ?? 0) + 1);
    t.is(await decoyFor(deps, of, `${n}@example.com`), decoy);
  }
  for (const [decoy, expected] of [
    ['a', 500],
    ['b', 1000],
    [null, 500],
  ] as const) {
    t.true(Math.abs((counts.get(decoy) ?? 0) - expected) < 150, `${decoy}`);
  }
});
