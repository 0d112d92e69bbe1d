import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import test from 'ava';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, fetchFile, newBucket, project, sql, stranger, user } = useStorage(test);

const textOf = async (blob: Blob): Promise<string> => blob.text();

test('a project begins with a bucket of its own slug', async (t) => {
  const buckets = dataOf(await admin().listBuckets());
  t.like(
    buckets.find(({ id }) => id === project().slug),
    { name: project().slug, public: false, file_size_limit: null },
  );
});

test('buckets are made, read, changed, emptied and deleted', async (t) => {
  const id = `b-${crypto.randomUUID()}`;
  t.deepEqual(
    dataOf(await admin().createBucket(id, { public: false, fileSizeLimit: '1MB', allowedMimeTypes: ['image/*'] })),
    {
      name: id,
    },
  );
  t.is((await admin().createBucket(id)).error?.message, 'The bucket exists already.');
  t.like(dataOf(await admin().getBucket(id)), {
    id,
    public: false,
    file_size_limit: 1e6,
    allowed_mime_types: ['image/*'],
  });
  dataOf(await admin().updateBucket(id, { public: true, allowedMimeTypes: null, fileSizeLimit: null }));
  t.like(dataOf(await admin().getBucket(id)), { public: true, file_size_limit: null, allowed_mime_types: null });
  dataOf(await admin().from(id).upload('a/b.txt', 'x'));
  t.is((await admin().deleteBucket(id)).error?.message, 'The bucket is not empty.');
  dataOf(await admin().emptyBucket(id));
  dataOf(await admin().deleteBucket(id));
  t.is((await admin().getBucket(id)).error?.message, 'No such bucket.');
  t.is((await admin().from(id).upload('a.txt', 'x')).error?.message, 'No such bucket.');
});

test('every kind of body is uploaded and comes back byte for byte', async (t) => {
  const files = admin().from(await newBucket());
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251));
  const bodies = {
    buffer: bytes,
    blob: new Blob([bytes], { type: 'image/png' }),
    file: new File([bytes], 'x.png', { type: 'image/png' }),
    arrayBuffer: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
    nodeStream: Readable.from([bytes.subarray(0, 1000), bytes.subarray(1000)]),
    webStream: new Blob([bytes]).stream(),
  };
  for (const [name, body] of Object.entries(bodies)) {
    const done = dataOf(await files.upload(`kinds/${name}`, body, { contentType: 'image/png' }));
    t.is(done.path, `kinds/${name}`);
    t.truthy(done.id);
    const back = dataOf(await files.download(`kinds/${name}`));
    t.true(Buffer.from(await back.arrayBuffer()).equals(bytes), name);
    t.is(back.type, 'image/png', name);
  }
});

test('upload refuses a name that is taken, upsert and update replace it, and info says what is there', async (t) => {
  const files = admin().from(await newBucket());
  dataOf(await files.upload('a.txt', 'one', { metadata: { colour: 'green' }, cacheControl: '60' }));
  const again = await files.upload('a.txt', 'two');
  t.is(again.error?.message, 'The object exists already.');
  t.is((again.error as { statusCode?: string } | null)?.statusCode, '409');
  dataOf(await files.upload('a.txt', 'three', { upsert: true, contentType: 'text/markdown' }));
  t.is(await textOf(dataOf(await files.download('a.txt'))), 'three');
  dataOf(await files.update('a.txt', 'four!', { metadata: { n: 1 } }));
  const info = dataOf(await files.info('a.txt'));
  t.like(info, { name: 'a.txt', size: 5, contentType: 'text/plain;charset=UTF-8', cacheControl: 'max-age=3600' });
  t.deepEqual(info.metadata, { n: 1 });
  t.is(info.etag, `"${createHash('sha256').update('four!').digest('hex')}"`);
  t.is((await files.update('none.txt', 'x')).error?.message, 'No such object.');
  t.true(dataOf(await files.exists('a.txt')));
  t.false((await files.exists('none.txt')).data);
});

test('folders are listed first, with limit, offset, search and order', async (t) => {
  const files = admin().from(await newBucket());
  for (const name of ['b.txt', 'a.txt', 'cat.png', 'x/1.txt', 'x/y/2.txt', 'w/3.txt', '.hidden']) {
    dataOf(await files.upload(name, name));
  }
  const names = async (...args: Parameters<typeof files.list>) =>
    dataOf(await files.list(...args)).map(({ name }) => name);
  t.deepEqual(await names(), ['w', 'x', '.hidden', 'a.txt', 'b.txt', 'cat.png']);
  t.deepEqual(await names('', { sortBy: { column: 'name', order: 'desc' } }), [
    'x',
    'w',
    'cat.png',
    'b.txt',
    'a.txt',
    '.hidden',
  ]);
  t.deepEqual(await names('', { limit: 2 }), ['w', 'x']);
  t.deepEqual(await names('', { limit: 2, offset: 1 }), ['x', '.hidden']);
  t.deepEqual(await names('', { limit: 2, offset: 3 }), ['a.txt', 'b.txt']);
  t.deepEqual(await names('', { search: 'CA' }), ['cat.png']);
  t.deepEqual(await names('x'), ['y', '1.txt']);
  t.deepEqual(await names('x/'), ['y', '1.txt']);
  t.deepEqual(await names('none'), []);
  t.deepEqual(await names('', { sortBy: { column: 'created_at', order: 'asc' }, offset: 2 }), [
    'b.txt',
    'a.txt',
    'cat.png',
    '.hidden',
  ]);
  const [entry] = dataOf(await files.list('w'));
  t.like(entry, { name: '3.txt', metadata: { size: 7, mimetype: 'text/plain;charset=UTF-8' } });
});

test('pages of list v2 follow each other without gap or repeat, by name and by time, with and without folders', async (t) => {
  const files = admin().from(await newBucket());
  const all = ['a/1', 'a/2', 'a/b/3', 'c', 'd/4', 'a-z', 'zz', 'ä'];
  for (const name of all) dataOf(await files.upload(name, name));
  const walk = async (options: Parameters<typeof files.listV2>[0]) => {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = dataOf(await files.listV2({ limit: 2, ...options, ...(cursor !== undefined && { cursor }) }));
      t.true(page.folders.length + page.objects.length <= 2);
      seen.push(
        ...[...page.folders.map(({ key }) => key ?? ''), ...page.objects.map(({ key }) => key ?? '')].toSorted(),
      );
      cursor = page.nextCursor;
      t.is(page.hasNext, cursor !== undefined);
    } while (cursor !== undefined);
    return seen;
  };
  const sorted = all.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  t.deepEqual(await walk({}), sorted);
  t.deepEqual((await walk({ sortBy: { column: 'name', order: 'desc' } })).toSorted(), sorted.toSorted());
  t.deepEqual((await walk({ with_delimiter: true })).toSorted(), ['a-z', 'a/', 'c', 'd/', 'zz', 'ä'].toSorted());
  t.deepEqual(
    (await walk({ with_delimiter: true, sortBy: { column: 'name', order: 'desc' } })).toSorted(),
    ['a-z', 'a/', 'c', 'd/', 'zz', 'ä'].toSorted(),
  );
  t.deepEqual((await walk({ prefix: 'a/' })).toSorted(), ['a/1', 'a/2', 'a/b/3']);
  t.deepEqual((await walk({ prefix: 'a/', with_delimiter: true })).toSorted(), ['a/1', 'a/2', 'a/b/']);
  for (const order of ['asc', 'desc'] as const)
    t.deepEqual((await walk({ sortBy: { column: 'created_at', order } })).toSorted(), all.toSorted());
  t.truthy((await files.listV2({ cursor: 'x' })).error);
});

test('objects are moved and copied, across buckets too', async (t) => {
  const [from, to] = [await newBucket(), await newBucket()];
  const files = admin().from(from);
  dataOf(await files.upload('a.txt', 'hello', { metadata: { n: 1 } }));
  dataOf(await files.move('a.txt', 'b/c.txt'));
  t.is((await files.download('a.txt')).error?.message, 'No such object.');
  t.deepEqual(dataOf(await files.copy('b/c.txt', 'copy.txt')), { path: `${from}/copy.txt` });
  t.is((await files.copy('b/c.txt', 'copy.txt')).error?.message, 'The object exists already.');
  t.is((await files.move('b/c.txt', 'copy.txt')).error?.message, 'The object exists already.');
  dataOf(await files.move('b/c.txt', 'moved.txt', { destinationBucket: to }));
  dataOf(await files.copy('copy.txt', 'copied.txt', { destinationBucket: to }));
  for (const name of ['moved.txt', 'copied.txt']) {
    t.is(await textOf(dataOf(await admin().from(to).download(name))), 'hello');
    t.deepEqual(dataOf(await admin().from(to).info(name)).metadata, { n: 1 });
  }
  t.is((await files.move('none', 'x')).error?.message, 'No such object.');
  t.is((await files.copy('none', 'x')).error?.message, 'No such object.');
});

test('several are removed at once, and what is not there is left out of the answer', async (t) => {
  const files = admin().from(await newBucket());
  for (const name of ['a', 'b', 'c']) dataOf(await files.upload(name, name));
  t.deepEqual(
    dataOf(await files.remove(['a', 'none', 'b']))
      .map(({ name }) => name)
      .toSorted(),
    ['a', 'b'],
  );
  t.deepEqual(
    dataOf(await files.list()).map(({ name }) => name),
    ['c'],
  );
});

test('signed addresses open one object, several, and one upload', async (t) => {
  const bucket = await newBucket();
  const files = admin().from(bucket);
  dataOf(await files.upload('dir/an ä.txt', 'secret'));
  const { signedUrl } = dataOf(await files.createSignedUrl('dir/an ä.txt', 60));
  t.is(await (await fetch(signedUrl)).text(), 'secret');
  const named = dataOf(await files.createSignedUrl('dir/an ä.txt', 60, { download: 'ö.txt' }));
  const saved = await fetch(named.signedUrl);
  t.is(saved.headers.get('content-disposition'), `attachment; filename="_.txt"; filename*=UTF-8''%C3%B6.txt`);
  const many = dataOf(await files.createSignedUrls(['dir/an ä.txt', 'none'], 60));
  t.is(await (await fetch(many[0]?.signedUrl ?? '')).text(), 'secret');
  t.is(many[1]?.signedUrl, null);
  t.truthy(many[1]?.error);
  t.truthy((await files.createSignedUrl('none', 60)).error);
  const { token } = dataOf(await files.createSignedUploadUrl('up.txt'));
  dataOf(
    await stranger()
      .from(bucket)
      .uploadToSignedUrl('up.txt', token, new Blob(['by url'])),
  );
  t.is(await textOf(dataOf(await files.download('up.txt'))), 'by url');
  t.truthy((await stranger().from(bucket).uploadToSignedUrl('other.txt', token, 'x')).error);
  t.truthy((await stranger().from(bucket).uploadToSignedUrl('up.txt', token, 'x')).error, 'it is there by now');
  t.is((await fetchFile(`/object/sign/${bucket}/dir/an%20%C3%A4.txt?token=${token}`)).status, 401);
  t.is((await fetch(signedUrl.replace('/an%20', '/am%20'))).status, 401);
});

test('public buckets are open to everybody, others are not', async (t) => {
  const [open, closed] = [await newBucket({ public: true }), await newBucket()];
  for (const bucket of [open, closed])
    dataOf(await admin().from(bucket).upload('a b.txt', 'hi', { contentType: 'text/plain' }));
  const { publicUrl } = admin().from(open).getPublicUrl('a b.txt').data;
  const answer = await fetch(publicUrl);
  t.is(await answer.text(), 'hi');
  t.is(answer.headers.get('content-type'), 'text/plain');
  t.is(answer.headers.get('cache-control'), 'max-age=3600');
  t.is((await fetch(admin().from(closed).getPublicUrl('a b.txt').data.publicUrl)).status, 404);
  t.is((await stranger().from(closed).download('a b.txt')).error?.message, 'No such object.');
  t.is(await textOf(dataOf(await stranger().from(open).download('a b.txt'))), 'hi');
});

test('policies as Supabase’s users write them decide what a user may do', async (t) => {
  const bucket = await newBucket();
  await sql(
    project(),
    `create policy "own ${bucket}" on storage.objects for all to authenticated
       using (bucket_id = '${bucket}' and owner_id = auth.uid())
       with check (bucket_id = '${bucket}' and (storage.foldername(name))[1] = auth.uid()::text
         and storage.extension(name) = 'txt')`,
  );
  const [ada, bob] = [await user(), await user()];
  const files = ada.storage.from(bucket);
  dataOf(await files.upload(`${ada.id}/a.txt`, 'mine'));
  t.is((await files.upload(`${bob.id}/a.txt`, 'x')).error?.message, 'No policy allows this (row-level security).');
  t.is((await files.upload(`${ada.id}/a.png`, 'x')).error?.message, 'No policy allows this (row-level security).');
  t.is(
    (await stranger().from(bucket).upload(`${ada.id}/b.txt`, 'x')).error?.message,
    'No policy allows this (row-level security).',
  );
  dataOf(await files.upload(`${ada.id}/a.txt`, 'mine again', { upsert: true }));
  t.is(await textOf(dataOf(await files.download(`${ada.id}/a.txt`))), 'mine again');
  const others = bob.storage.from(bucket);
  t.is((await others.download(`${ada.id}/a.txt`)).error?.message, 'No such object.');
  t.deepEqual(dataOf(await others.list(ada.id)), []);
  t.deepEqual(dataOf(await others.remove([`${ada.id}/a.txt`])), []);
  t.truthy((await others.move(`${ada.id}/a.txt`, `${bob.id}/a.txt`)).error);
  t.truthy((await others.createSignedUrl(`${ada.id}/a.txt`, 60)).error);
  t.is(
    (await files.move(`${ada.id}/a.txt`, `${bob.id}/a.txt`)).error?.message,
    'No policy allows this (row-level security).',
  );
  dataOf(await files.move(`${ada.id}/a.txt`, `${ada.id}/b.txt`));
  t.deepEqual(await sql(project(), `select owner_id, owner from storage.objects where name = '${ada.id}/b.txt'`), [
    { owner_id: ada.id, owner: ada.id },
  ]);
  t.is(dataOf(await files.remove([`${ada.id}/b.txt`])).length, 1);
});
