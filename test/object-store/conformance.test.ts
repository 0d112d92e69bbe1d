/** The promises of lib/object-store/object-store.ts, kept by every driver. */
import { createHash, randomBytes } from 'node:crypto';
import { PassThrough, Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import { SizeMismatchError, TooLargeError } from '#lib/object-store/errors.ts';
import type { ObjectStore, StorageDriver } from '#lib/object-store/object-store.ts';
import { until } from '#test/support/until.ts';
import { all, stores } from './stores.ts';

const mib = 2 ** 20;
const never = new AbortController().signal;
const anySize = { maxBytes: 100 * mib, signal: never };

const put = (store: ObjectStore, key: string, bytes: string | Uint8Array) =>
  store.write(key, Readable.from([Buffer.from(bytes)]), anySize);

const get = async (store: ObjectStore, key: string, range?: { start: number; end: number }): Promise<string | null> => {
  const body = await store.read(key, { signal: never, ...(range && { range }) });
  return body && (await text(body));
};

const keysOf = async (store: ObjectStore, prefix = ''): Promise<string[]> =>
  (await all(store.list(prefix))).map(({ key }) => key);

const nothingLeft = async (t: ExecutionContext, store: StorageDriver): Promise<void> => {
  t.deepEqual(await keysOf(store), []);
  t.deepEqual(await all(store.unfinished()), []);
};

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

for (const [driver, openStore] of Object.entries(stores)) {
  const check = (title: string, run: (t: ExecutionContext, store: StorageDriver) => Promise<void>): void =>
    test(`${driver}: ${title}`, async (t) => run(t, await openStore(t)));

  check('bytes are read as they were written, with their size and SHA-256', async (t, store) => {
    for (const bytes of [Buffer.alloc(0), randomBytes(1), randomBytes(300_000), randomBytes(13 * mib + 7)]) {
      t.deepEqual(await put(store, 'p/one', bytes), { size: bytes.length, sha256: sha256(bytes) });
      const body = await store.read('p/one', { signal: never });
      t.true(body !== null && bytes.equals(await buffer(body)), `${bytes.length} bytes`);
    }
  });

  check('a body of thousands of small chunks is written whole', async (t, store) => {
    const bytes = randomBytes(5000);
    await store.write('p/small', Readable.from(Array.from(bytes, (byte) => Buffer.of(byte))), anySize);
    const body = await store.read('p/small', { signal: never });
    t.true(body !== null && bytes.equals(await buffer(body)));
  });

  check('a range is read, and cut at the end of the file', async (t, store) => {
    await put(store, 'a', '0123456789');
    t.is(await get(store, 'a', { start: 2, end: 4 }), '234');
    t.is(await get(store, 'a', { start: 0, end: 0 }), '0');
    t.is(await get(store, 'a', { start: 8, end: 99 }), '89');
    t.is(await get(store, 'a', { start: 10, end: 12 }), '');
  });

  check('a key that nothing has reads as null and copies as false', async (t, store) => {
    t.is(await store.read('no/such', { signal: never }), null);
    t.false(await store.copy('no/such', 'to'));
    await put(store, 'a/b', 'x');
    t.is(await store.read('a', { signal: never }), null);
    t.is(await store.read('a/b/c', { signal: never }), null);
  });

  check('what a key had is replaced whole, and a read that has begun goes on', async (t, store) => {
    const old = randomBytes(3 * mib);
    await put(store, 'k', old);
    const opened = await store.read('k', { signal: never });
    await put(store, 'k', 'new');
    t.is(await get(store, 'k'), 'new');
    t.true(opened !== null && old.equals(await buffer(opened)));
  });

  check('a read that has begun goes on when its key is removed', async (t, store) => {
    const bytes = randomBytes(3 * mib);
    await put(store, 'k', bytes);
    const opened = await store.read('k', { signal: never });
    await store.remove(['k', 'never-was']);
    t.is(await store.read('k', { signal: never }), null);
    t.true(opened !== null && bytes.equals(await buffer(opened)));
  });

  check('of many writes of one key at a time, one is there whole', async (t, store) => {
    const bodies = Array.from({ length: 8 }, (_, i) => Buffer.alloc(400_000, String(i)));
    await Promise.all(bodies.map((bytes) => put(store, 'k', bytes)));
    const read = await store.read('k', { signal: never });
    const found = read && (await buffer(read));
    t.true(bodies.some((bytes) => found !== null && bytes.equals(found)));
    t.deepEqual(await all(store.unfinished()), []);
  });

  check('a body over the limit is refused, is not destroyed, and leaves nothing', async (t, store) => {
    for (const length of [11, 6 * mib, 12 * mib]) {
      const body = new PassThrough();
      body.write(randomBytes(length));
      const refused = store.write('k', body, { ...anySize, maxBytes: length - 1 });
      const error = await t.throwsAsync(refused, { instanceOf: TooLargeError });
      t.is(error?.maxBytes, length - 1);
      t.false(body.destroyed);
    }
    await nothingLeft(t, store);
    await t.notThrowsAsync(store.write('k', Readable.from(['12345']), { ...anySize, maxBytes: 5 }));
  });

  check('an announced size over the limit is refused before a byte is read', async (t, store) => {
    const body = new PassThrough();
    await t.throwsAsync(store.write('k', body, { ...anySize, maxBytes: 5, size: 6 }), { instanceOf: TooLargeError });
    await nothingLeft(t, store);
  });

  check('a body of another length than announced is refused, and leaves nothing', async (t, store) => {
    for (const size of [0, 4, 6, 20 * mib]) {
      const refused = store.write('k', Readable.from(['12345']), { ...anySize, size });
      await t.throwsAsync(refused, { instanceOf: SizeMismatchError });
    }
    const large = Readable.from([randomBytes(6 * mib), randomBytes(6 * mib)]);
    await t.throwsAsync(store.write('k', large, { ...anySize, size: 12 * mib + 1 }), { instanceOf: SizeMismatchError });
    await nothingLeft(t, store);
  });

  check('a body that fails in its middle leaves nothing, and what the key had stays', async (t, store) => {
    for (const sent of [100, 12 * mib]) {
      const body = new PassThrough();
      const refused = t.throwsAsync(store.write('k', body, anySize), { message: 'client gone' });
      body.write(randomBytes(sent), () => body.destroy(new Error('client gone')));
      await refused;
    }
    await nothingLeft(t, store);
    await put(store, 'k', 'old');
    const body = new PassThrough();
    const refused = t.throwsAsync(store.write('k', body, anySize), { message: 'client gone' });
    body.write('new', () => body.destroy(new Error('client gone')));
    await refused;
    t.is(await get(store, 'k'), 'old');
  });

  check('an aborted write ends at once, also while nothing comes, and leaves nothing', async (t, store) => {
    const abort = new AbortController();
    const body = new PassThrough();
    const refused = t.throwsAsync(store.write('k', body, { ...anySize, signal: abort.signal }), { message: 'stopped' });
    body.write(randomBytes(9 * mib));
    await until(() => body.readableLength === 0);
    abort.abort(new Error('stopped'));
    await refused;
    t.false(body.destroyed);
    await nothingLeft(t, store);
    await t.throwsAsync(put2(store, AbortSignal.abort(new Error('early'))), { message: 'early' });
  });

  check('an aborted read ends with the reason', async (t, store) => {
    await put(store, 'k', randomBytes(8 * mib));
    const abort = new AbortController();
    const body = await store.read('k', { signal: abort.signal });
    abort.abort(new Error('stopped'));
    const error = await t.throwsAsync(async () => body && (await buffer(body)));
    t.true(error?.message === 'stopped' || (error?.cause as Error | undefined)?.message === 'stopped');
    await t.throwsAsync(store.read('k', { signal: AbortSignal.abort(new Error('early')) }), { message: 'early' });
  });

  check('a copy is a file of its own: either may go or be replaced', async (t, store) => {
    await put(store, 'from', 'bytes');
    await put(store, 'to', 'other');
    t.true(await store.copy('from', 'x/to'));
    t.true(await store.copy('from', 'to'));
    t.true(await store.copy('from', 'from'));
    await put(store, 'from', 'new');
    t.is(await get(store, 'x/to'), 'bytes');
    await store.remove(['from', 'to']);
    t.is(await get(store, 'x/to'), 'bytes');
    t.deepEqual(await keysOf(store), ['x/to']);
    t.deepEqual(await all(store.unfinished()), []);
  });

  check('keys are listed in the order of their bytes, below any prefix', async (t, store) => {
    const keys = ['a', 'a-b', 'a/b', 'a/b-c', 'a/b/c', 'a0', 'b/1', 'b/10', 'b/2', 'ba'].toSorted();
    for (const key of keys.toReversed()) await put(store, key, key);
    t.deepEqual(await keysOf(store), keys);
    for (const prefix of ['a', 'a/', 'a/b', 'a/b/', 'b/1', 'b', 'c', 'a/b/c/']) {
      const below = keys.filter((key) => key.startsWith(prefix));
      t.deepEqual(await keysOf(store, prefix), below, prefix);
    }
    const [first] = await all(store.list('b/10'));
    t.is(first?.size, 4);
    t.true(Math.abs(Date.now() - (first?.modifiedAt.getTime() ?? 0)) < 3_600_000);
  });

  check('nothing but keys is taken: no path leads out', async (t, store) => {
    for (const key of ['', '/', '..', 'a/../b', '/a', 'a/', 'a//b', 'A', 'a.b', 'a\0', 'ä', '_aa/b', 'a'.repeat(513)]) {
      await t.throwsAsync(put(store, key, 'x'), { instanceOf: RangeError }, key);
      await t.throwsAsync(async () => store.read(key, { signal: never }), { instanceOf: RangeError }, key);
      await t.throwsAsync(async () => store.copy('a', key), { instanceOf: RangeError }, key);
      await t.throwsAsync(async () => store.copy(key, 'a'), { instanceOf: RangeError }, key);
      await t.throwsAsync(async () => store.remove(['a', key]), { instanceOf: RangeError }, key);
    }
    for (const prefix of ['..', '../', '/', 'a//', '_']) t.throws(() => store.list(prefix), { instanceOf: RangeError });
    await nothingLeft(t, store);
  });

  check('writes under way are listed, and only old ones are removed', async (t, store) => {
    const abort = new AbortController();
    const body = new PassThrough();
    const refused = t.throwsAsync(store.write('k', body, { ...anySize, signal: abort.signal }));
    body.write(randomBytes(9 * mib));
    await until(async () => (await all(store.unfinished())).length === 1);
    t.is(await store.removeUnfinished(new Date(Date.now() - 3_600_000)), 0);
    t.is(await store.removeUnfinished(new Date(Date.now() + 3_600_000)), 1);
    t.deepEqual(await all(store.unfinished()), []);
    body.end();
    await refused;
    abort.abort();
    await nothingLeft(t, store);
  });

  check('it answers when it can be used', async (t, store) => {
    await t.notThrowsAsync(store.check());
  });
}

const put2 = (store: ObjectStore, signal: AbortSignal) =>
  store.write('k', Readable.from(['x']), { ...anySize, signal });
