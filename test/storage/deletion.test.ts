import test from 'ava';
import { dataOf, useStorage } from './storage-scene.ts';
import { deleteObjects } from '#domain/storage/store.ts';

const { admin, newBucket } = useStorage(test);

test('files that were deleted are answered as they were listed', async (t) => {
  const bucket = await newBucket();
  const from = admin().from(bucket);
  dataOf(await from.upload('a.txt', 'text', { contentType: 'text/plain', metadata: { about: 'x'.repeat(30_000) } }));
  const [gone] = dataOf(await from.remove(['a.txt']));
  t.like(gone, { name: 'a.txt', bucket_id: bucket });
  t.like(gone?.metadata, { mimetype: 'text/plain', size: 4 });
  t.false(JSON.stringify(gone).includes('about'));
});

test('a deletion does not read the metadata of users, which may be 64 MB', async (t) => {
  const texts: string[] = [];
  const one = (_caller: unknown, _run: unknown, sql: { readonly text: string }): Promise<readonly string[]> => {
    texts.push(sql.text);
    return Promise.resolve(['[]']);
  };
  const sealer = { keyFor: () => Buffer.alloc(32) };
  const deps = { data: { one }, sealer: () => sealer } as never;
  t.deepEqual(await deleteObjects(deps, { project: {}, caller: {} } as never, { bucket: 'b', names: ['a'] }), []);
  t.regex(texts.join(''), /delete from storage\.objects/);
  t.notRegex(texts.join(''), /user_metadata/);
});
