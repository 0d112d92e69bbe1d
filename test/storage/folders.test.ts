import test, { type ExecutionContext } from 'ava';
import type { Answer, CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, developer, newBucket, newProject, platform, project, sql, user } = useStorage(test);

type Options = CallOptions & { readonly of?: TestProject; readonly as?: TestUser };

const ask = (method: string, path: string, { of = project(), as = developer(), ...options }: Options = {}) =>
  platform().client.call(method, `/projects/${of.id}/storage/v1${path}`, { token: as.token, ...options });

/** Errors of files have a form of their own. */
const isRefused = (t: ExecutionContext, answer: Answer, status: number, code: string): void => {
  t.deepEqual([answer.status, answer.body?.code], [status, code], answer.text);
};

const wait = { prefer: 'wait=60' };
const transfer = (op: 'move' | 'copy' | 'check', body: Record<string, string>, options: Options = {}) =>
  ask('POST', `/folder/${op}`, { body, headers: { ...wait, ...options.headers }, ...options });

const objectPath = (bucket: string, name: string): string =>
  `/object/${bucket}/${name.split('/').map(encodeURIComponent).join('/')}`;

/** Files that hold their names. */
const fill = async (bucket: string, names: readonly string[], of = project()): Promise<void> => {
  for (const name of names) {
    const answer = await ask('POST', objectPath(bucket, name), {
      raw: name,
      headers: { 'content-type': 'text/plain' },
      of,
    });
    if (answer.status !== 200) throw new Error(answer.text);
  }
};

/** All names of a bucket, with what they hold. */
const contents = async (bucket: string, of = project()): Promise<Record<string, string>> => {
  const rows = await sql(of, `select name from storage.objects where bucket_id = '${bucket}' order by name`);
  const read = async (name: string): Promise<[string, string]> => [
    name,
    (await ask('GET', objectPath(bucket, name), { of })).text,
  ];
  return Object.fromEntries(await Promise.all(rows.map(({ name }) => read(String(name)))));
};

test('a folder is renamed, moved to another bucket, and copied, with all that is in it', async (t) => {
  t.timeout(longTestMs);
  const [bucket, other] = [await newBucket(), await newBucket()];
  const odd = `x/%2F "é😀' <b>\\.txt`;
  await fill(bucket, ['a/1', 'a/b/2', `a/${odd}`, 'ab/3', 'a.txt']);
  const plan = await transfer('check', { bucket, folder: 'a', to_folder: 'c/d' });
  t.like(plan.body, { files: 3, collisions: 0, names: [] });
  const moved = await transfer('move', { bucket, folder: 'a/', to_folder: 'c/d' });
  t.deepEqual([moved.status, moved.body], [200, { done: 3, skipped: 0 }], moved.text);
  t.deepEqual(await contents(bucket), {
    'a.txt': 'a.txt',
    'ab/3': 'ab/3',
    'c/d/1': 'a/1',
    'c/d/b/2': 'a/b/2',
    [`c/d/${odd}`]: `a/${odd}`,
  });
  const copied = await transfer('copy', { bucket, folder: 'c/d', to_bucket: other, to_folder: '' });
  t.deepEqual(copied.body, { done: 3, skipped: 0 }, copied.text);
  t.deepEqual(await contents(other), { '1': 'a/1', 'b/2': 'a/b/2', [odd]: `a/${odd}` });
  t.is(Object.keys(await contents(bucket)).length, 5);
  const back = await transfer('move', { bucket: other, folder: '', to_bucket: bucket, to_folder: 'whole' });
  t.deepEqual(back.body, { done: 3, skipped: 0 }, back.text);
  t.deepEqual(await contents(other), {});
});

test('names that are taken are said first; then they are skipped, or what is there is replaced', async (t) => {
  t.timeout(longTestMs);
  for (const op of ['move', 'copy'] as const) {
    const bucket = await newBucket();
    await fill(bucket, ['from/1', 'from/2', 'to/2', 'to/3']);
    const places = { bucket, folder: 'from', to_folder: 'to' };
    t.like((await transfer('check', places)).body, { files: 2, collisions: 1, names: ['to/2'] });
    const refused = await transfer(op, places);
    isRefused(t, refused, 409, 'conflict');
    t.deepEqual(refused.body.details, { files: 2, collisions: 1, names: ['to/2'] });
    t.is(Object.keys(await contents(bucket)).length, 4, 'nothing was begun');
    const skipped = await transfer(op, { ...places, on_collision: 'skip' });
    t.deepEqual(skipped.body, { done: 1, skipped: 1 }, skipped.text);
    const afterSkip = await contents(bucket);
    t.like(afterSkip, { 'to/1': 'from/1', 'to/2': 'to/2', 'from/2': 'from/2' });
    const replaced = await transfer(op, { ...places, on_collision: 'replace' });
    t.is(replaced.status, 200, replaced.text);
    const after = await contents(bucket);
    t.like(after, { 'to/1': 'from/1', 'to/2': 'from/2', 'to/3': 'to/3' });
    t.is('from/2' in after, op === 'copy');
  }
});

test('a folder goes neither into itself nor to nowhere', async (t) => {
  const bucket = await newBucket();
  await fill(bucket, ['a/1']);
  const refusals: readonly (readonly [Record<string, string>, number])[] = [
    [{ folder: 'a', to_folder: 'a' }, 400],
    [{ folder: 'a', to_folder: 'a/' }, 400],
    [{ folder: 'a', to_folder: 'a/b/c' }, 400],
    [{ folder: '', to_folder: 'b' }, 400],
    [{ folder: 'a', to_folder: '../b' }, 400],
    [{ folder: 'a', to_folder: 'b//c' }, 400],
    [{ folder: 'a', to_folder: 'x'.repeat(1024) }, 400],
    [{ folder: 'nothing', to_folder: 'b' }, 404],
    [{ folder: 'a', to_folder: 'b', to_bucket: 'none' }, 404],
    [{ folder: 'a', to_folder: 'b', on_collision: 'ask' }, 400],
  ];
  for (const [body, status] of refusals)
    for (const op of ['move', 'copy'] as const)
      t.is((await transfer(op, { bucket, ...body })).status, status, JSON.stringify(body));
  // A name that only begins alike is no folder within it.
  t.is((await transfer('move', { bucket, folder: 'a', to_folder: 'ab' })).status, 200);
});

test('viewers move and copy nothing, and other tenants learn nothing', async (t) => {
  const bucket = await newBucket();
  await fill(bucket, ['a/1']);
  const viewer = await addMember(platform(), project().orgId, 'viewer');
  const stranger = await platform().client.signUp();
  const places = { bucket, folder: 'a', to_folder: 'b' };
  for (const op of ['move', 'copy', 'check'] as const) {
    t.is((await transfer(op, places, { as: viewer })).status, 403);
    t.is((await transfer(op, places, { as: stranger })).status, 404);
  }
  const foreign = await newProject();
  t.is((await transfer('check', places, { of: foreign })).status, 404, 'a bucket of another project');
  t.deepEqual(Object.keys(await contents(bucket)), ['a/1']);
});

test('policies decide about each file, as they do for one', async (t) => {
  t.timeout(longTestMs);
  const of = await newProject();
  const bucket = of.slug;
  const { id } = await user(of);
  await fill(bucket, ['mine/1', 'mine/2', 'secret/1'], of);
  await sql(
    of,
    `create policy see on storage.objects for select to authenticated using (name not like 'secret/%')`,
    `create policy change on storage.objects for update to authenticated using (name like 'mine/%') with check (name not like 'closed/%')`,
    `create policy add on storage.objects for insert to authenticated with check (name like 'copies/%')`,
  );
  const headers = { ...wait, 'x-plinth-as': `authenticated:${id}` };
  const as = (op: 'move' | 'copy', folder: string, to: string) =>
    transfer(op, { bucket, folder, to_folder: to }, { of, headers });
  t.is((await as('move', 'secret', 'mine/stolen')).status, 404);
  isRefused(t, await as('move', 'mine', 'closed'), 403, 'forbidden');
  isRefused(t, await as('copy', 'mine', 'elsewhere'), 403, 'forbidden');
  t.deepEqual(Object.keys(await contents(bucket, of)), ['mine/1', 'mine/2', 'secret/1']);
  const copied = await as('copy', 'mine', 'copies');
  t.deepEqual(copied.body, { done: 2, skipped: 0 }, copied.text);
  const owners = await sql(of, `select distinct owner from storage.objects where name like 'copies/%'`);
  t.deepEqual(owners, [{ owner: id }]);
  const moved = await as('move', 'mine', 'open');
  t.deepEqual(moved.body, { done: 2, skipped: 0 }, moved.text);
});

test('the limits of a bucket hold for a folder that comes from another; what was done before is said', async (t) => {
  t.timeout(longTestMs);
  const [bucket, small] = [await newBucket(), await newBucket()];
  dataOf(await admin().updateBucket(small, { public: false, fileSizeLimit: 4 }));
  await fill(
    bucket,
    Array.from({ length: 60 }, (_, at) => `a/${at}`.padEnd(4, 'x').slice(0, 4)),
  );
  dataOf(await admin().from(bucket).upload('a/zz', 'too long'));
  const moved = await transfer('move', { bucket, folder: 'a', to_bucket: small, to_folder: 'a' });
  isRefused(t, moved, 413, 'payload_too_large');
  t.regex(moved.body.message, /^\d+ files are moved already\. /);
});

test('a transfer is a job that shows its progress', async (t) => {
  t.timeout(longTestMs);
  const bucket = await newBucket();
  const names = Array.from({ length: 120 }, (_, at) => `a/${at}`);
  await fill(bucket, names);
  const body = { bucket, folder: 'a', to_folder: 'b' };
  const started = await ask('POST', '/folder/copy', { body, headers: { prefer: 'respond-async' } });
  t.is(started.status, 202, started.text);
  const job = await until(async () => {
    const answer = await platform().client.call('GET', `/projects/${project().id}/jobs/${started.body.job_id}`, {
      token: developer().token,
    });
    return answer.body.status === 'succeeded' && answer.body;
  });
  t.like(job, { type: 'storage.transfer', progress: 100, result: { done: 120, skipped: 0 } });
});

test('a transfer that is cancelled stops in the middle, and every file is in one of both folders', async (t) => {
  t.timeout(longTestMs);
  const of = await newProject();
  const bucket = of.slug;
  const names = Array.from({ length: 120 }, (_, at) => `a/${String(at).padStart(3, '0')}`);
  await fill(bucket, names, of);
  const { client } = platform();
  const { token } = developer();
  const moved = async (): Promise<number> =>
    (await sql(of, `select from storage.objects where name like 'b/%'`)).length;
  await asAdmin(of.dbName, async (holder) => {
    await holder.query('begin');
    // The third batch of fifty waits for this file.
    await holder.query(`select from storage.objects where name = 'a/110' for update`);
    const body = { bucket, folder: 'a', to_folder: 'b' };
    const started = await ask('POST', '/folder/move', { body, headers: { prefer: 'respond-async' }, of });
    t.is(started.status, 202, started.text);
    await until(async () => (await moved()) === 100);
    const job = `/projects/${of.id}/jobs/${started.body.job_id}`;
    const cancelled = await client.call('POST', `${job}/cancel`, { token });
    t.true(cancelled.status < 300, cancelled.text);
    await until(async () => (await client.call('GET', job, { token })).body.status === 'cancelled');
    await holder.query('rollback');
  });
  const after = await contents(bucket, of);
  t.deepEqual(Object.values(after).toSorted(), names);
  t.is(await moved(), 100);
  t.like(after, { 'a/110': 'a/110', 'b/099': 'a/099' });
  const again = await transfer('move', { bucket, folder: 'a', to_folder: 'b' }, { of });
  t.deepEqual(again.body, { done: 20, skipped: 0 }, again.text);
});
