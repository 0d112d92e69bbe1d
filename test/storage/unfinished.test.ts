import { readFile, readdir } from 'node:fs/promises';
import { request } from 'node:http';
import path from 'node:path';
import test from 'ava';
import { addMember } from '#test/support/members.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { until } from '#test/support/until.ts';
import { type Caller, byKey, byMember, byUser, ofPatch, resumableCalls } from './resumable-calls.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const mb = 1_000_000;
const { admin, ask, developer, newProject, platform, signIn, signedUp, sql } = useStorage(test, {
  settings: { PLINTH_FILE_BYTES_FREE: String(3 * mb), PLINTH_STORAGE_BYTES_FREE: String(5 * mb) },
});

const { begin, create, end, head, patch, rootOf } = resumableCalls(platform);

const newKey = async (of: TestProject): Promise<string> => {
  const body = { name: 'another', kind: 'secret' };
  const made = await platform().client.call('POST', `/projects/${of.id}/api-keys`, { token: developer().token, body });
  return made.body.api_key;
};

const uploads = (of: TestProject, { token }: Pick<TestUser, 'token'>, query = '') =>
  platform().client.call('GET', `/projects/${of.id}/storage/v1/uploads${query}`, { token });

const cancel = (of: TestProject, { token }: Pick<TestUser, 'token'>, id: string) =>
  platform().client.call('DELETE', `/projects/${of.id}/storage/v1/uploads/${id}`, { token });

test('only who began an upload goes on with it, sees it and ends it: members and keys as well', async (t) => {
  const of = await newProject();
  const [one, two] = [
    await addMember(platform(), of.orgId, 'developer'),
    await addMember(platform(), of.orgId, 'developer'),
  ];
  const callers = [
    byMember(of, one),
    byMember(of, two),
    byMember(of, developer()),
    byKey(of),
    byKey(of, await newKey(of)),
  ];
  for (const caller of callers) {
    const id = await begin(of, caller);
    for (const other of callers.filter((other) => other !== caller)) {
      t.is(await head(other, id), 404);
      t.is((await patch(other, id, { body: '0123456789' })).status, 404);
      t.is(await end(other, id), 404);
    }
    t.is(await head(caller, id), 200);
    t.is((await patch(caller, id, { body: '0123456789' })).status, 204);
  }
  const id = await begin(of, byMember(of, one));
  t.is(await head(byMember(of, one, 'anon'), id), 404, 'the project itself began it, and not whom the member looks as');
  t.is(await end(byMember(of, one), id), 204);
  t.is(dataOf(await admin(of).from(of.slug).list()).length, callers.length);
});

test('owners list what has not ended and end it, also while it is being sent; nobody else does', async (t) => {
  const of = await newProject();
  const dev = await addMember(platform(), of.orgId, 'developer');
  await sql(of, 'create policy uploads on storage.objects for insert to authenticated with check (true)');
  const session = await signedUp(of);
  const began = {
    user: await begin(of, byMember(of, dev), { name: 'by member' }),
    key: await begin(of, byKey(of), { name: 'by key' }),
    end_user: await begin(of, byUser(of, session.access_token), { name: 'by user', size: 1000 }),
  };
  const { status, body } = await uploads(of, developer());
  t.is(status, 200);
  t.deepEqual(
    [body.total, body.uploads.map((one: { id: string }) => one.id)],
    [3, [began.end_user, began.key, began.user]],
  );
  t.like(body.uploads[0], {
    bucket: of.slug,
    name: 'by user',
    size: 1000,
    created_by: { kind: 'end_user', id: session.user.id },
  });
  t.deepEqual(body.uploads[2].created_by, { kind: 'user', id: dev.id });
  t.is(body.uploads[1].created_by.kind, 'key');
  t.is((await uploads(of, developer(), '?limit=1&offset=1')).body.uploads[0].id, began.key);
  const [boss, stranger] = [await addMember(platform(), of.orgId, 'admin'), await platform().client.signUp()];
  t.deepEqual([(await uploads(of, boss)).status, (await cancel(of, boss, began.key)).status], [403, 403]);
  t.deepEqual([(await uploads(of, stranger)).status, (await cancel(of, stranger, began.key)).status], [404, 404]);
  const other = await newProject();
  t.is((await cancel(other, developer(), began.key)).status, 404, 'an upload of another project');
  t.is((await uploads(other, developer())).body.total, 0);

  const caller = byUser(of, session.access_token);
  const sending = request(`${rootOf(caller)}/${began.end_user}`, {
    method: 'PATCH',
    headers: { ...ofPatch, ...caller.headers, 'upload-offset': '0', 'content-length': '1000' },
  });
  sending.on('error', () => undefined);
  sending.write('some of it');
  const folder = path.join(platform().config.DATA_DIR, 'storage', 'uploads');
  const files = async () => readdir(folder, { recursive: true });
  await until(async () => (await files()).some((name) => name.endsWith(`${began.end_user}.part`)));
  for (const id of Object.values(began)) t.is((await cancel(of, developer(), id)).status, 204);
  sending.destroy();
  t.is(await head(caller, began.end_user), 404);
  t.is((await cancel(of, developer(), began.key)).status, 404, 'it is gone');
  t.deepEqual((await uploads(of, developer())).body, { uploads: [], total: 0 });
  t.deepEqual(
    (await files()).filter((name) => Object.values(began).some((id) => name.includes(id))),
    [],
  );
});

test('one user leaves room for the others, in number and bytes', async (t) => {
  const of = await platform().client.createProject(developer(), { plan: 'free' });
  await sql(of, 'create policy uploads on storage.objects for insert to authenticated with check (true)');
  const [ada, bob] = [await signedUp(of), await signedUp(of)];
  const refused = async (caller: Caller, size: number) => {
    const answer = await create(of, caller, { size });
    const { code, details } = (await answer.json()) as { code: string; details: { of: string; limit: number } };
    return [answer.status, code, details.of, details.limit];
  };
  await begin(of, byUser(of, ada.access_token), { size: 2 * mb });
  t.deepEqual(await refused(byUser(of, ada.access_token), 2 * mb), [403, 'plan_limit_exceeded', 'creator', 3 * mb]);
  await begin(of, byUser(of, bob.access_token), { size: 2 * mb });
  t.deepEqual(await refused(byKey(of), 2 * mb), [403, 'plan_limit_exceeded', 'project', 5 * mb]);
  await platform().db.query(
    `insert into storage_uploads (id, project_id, size, expires_at, creator)
     select gen_random_uuid(), $1, 0, now() + interval '1 day', $2 from generate_series(1, 99)`,
    [of.id, `end_user:${ada.user.id}`],
  );
  t.deepEqual(await refused(byUser(of, ada.access_token), 1), [403, 'plan_limit_exceeded', 'creator', 100]);
  await begin(of, byUser(of, bob.access_token), { size: 1 });
});

test('policies are asked again at the end, by what the user may do then', async (t) => {
  const of = await newProject();
  await sql(
    of,
    `create policy editors on storage.objects for insert to authenticated
       with check (auth.jwt() -> 'app_metadata' ->> 'editor' = 'yes')`,
  );
  const { user } = await signedUp(of);
  const asEditor = async (editor: string): Promise<Caller> => {
    const body = { app_metadata: { editor } };
    const changed = await ask('PUT', `/admin/users/${user.id}`, { key: of.key, body }, of);
    t.is(changed.status, 200, changed.text);
    return byUser(of, (await signIn(user.email, undefined, of)).body.access_token);
  };
  const id = await begin(of, await asEditor('yes'), { name: 'a' });
  const demoted = await asEditor('no');
  t.is((await patch(demoted, id, { body: '0123456789' })).status, 403);
  t.deepEqual(await sql(of, 'select name from storage.objects'), []);
  const again = await asEditor('yes');
  t.is(await head(again, id), 200, 'its bytes are there, and so is its row from now on');
  t.deepEqual(await sql(of, 'select name from storage.objects'), [{ name: 'a' }]);
});

test('of an upload that has ended, its facts are kept for an hour', async (t) => {
  const of = await newProject();
  const id = await begin(of, byKey(of));
  const folder = path.join(platform().config.DATA_DIR, 'storage', 'uploads');
  const expiresAt = async (): Promise<number> => {
    const file = (await readdir(folder, { recursive: true })).find((name) => name.endsWith(`${id}.json`)) ?? '';
    return (JSON.parse(await readFile(path.join(folder, file), 'utf8')) as { expiresAt: number }).expiresAt;
  };
  t.true((await expiresAt()) > Date.now() + 23 * 3_600_000);
  t.is((await patch(byKey(of), id, { body: '0123456789' })).status, 204);
  t.true((await until(expiresAt)) <= Date.now() + 3_600_000);
  t.is(await head(byKey(of), id), 200, 'a client whose answer was lost learns that all is there');
});
