/** A server of S3 that fails, is silent, or loses what it has taken. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import { ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { StoreFullError, StoreUnavailableError } from '#lib/object-store/errors.ts';
import { openBucket } from '#lib/object-store/s3-client.ts';
import { partSizeOf } from '#lib/object-store/s3-multipart.ts';
import { createS3Store } from '#lib/object-store/s3-store.ts';
import { startS3Server } from '#test/support/s3-server.ts';
import { all } from './stores.ts';

const mib = 2 ** 20;
const never = new AbortController().signal;

const open = async (t: ExecutionContext, more: { requestTimeoutMs?: number; maxCopyBytes?: number } = {}) => {
  const server = await startS3Server(t);
  const store = createS3Store(openBucket({ ...server.settings, ...more }));
  const write = (bytes: Uint8Array) => store.write('k', Readable.from([bytes]), { maxBytes: 100 * mib, signal: never });
  return { server, store, write };
};

const small = Buffer.from('small');
const large = randomBytes(12 * mib);

test('a request that is answered 500 or 503 is sent again', async (t) => {
  const { server, store, write } = await open(t);
  for (const status of [500, 503] as const) {
    server.fault(/^PUT /, status, 2);
    server.fault(/^POST /, status, 2);
    server.fault(/^GET /, status, 2);
    t.is((await write(large)).size, large.length);
    const body = await store.read('k', { signal: never });
    t.true(body !== null && large.equals(await buffer(body)));
  }
});

test('a server that goes on failing is unavailable, and nothing is left', async (t) => {
  const { server, store, write } = await open(t);
  for (const bytes of [small, large]) {
    server.fault(/^PUT /, 500, 12);
    await t.throwsAsync(write(bytes), { instanceOf: StoreUnavailableError });
  }
  t.is(server.objects.size + server.uploads.size, 0);
  for (const work of [
    () => store.read('k', { signal: never }),
    () => store.copy('k', 'l'),
    () => store.remove(['k']),
    () => store.check(),
    () => all(store.list('')),
    () => all(store.unfinished()),
  ]) {
    server.fault(/./, 503, 4);
    await t.throwsAsync(work(), { instanceOf: StoreUnavailableError });
  }
});

test('a server that does not answer is given up', async (t) => {
  const { server, store, write } = await open(t, { requestTimeoutMs: 300 });
  server.fault(/^PUT /, 'hang', 4);
  await t.throwsAsync(write(small), { instanceOf: StoreUnavailableError });
  server.fault(/^GET /, 'hang', 4);
  await t.throwsAsync(store.read('k', { signal: never }), { instanceOf: StoreUnavailableError });
});

test('a server without room is told apart', async (t) => {
  const { server, write } = await open(t);
  for (const bytes of [small, large]) {
    server.fault(/^PUT /, 507, 12);
    await t.throwsAsync(write(bytes), { instanceOf: StoreFullError });
  }
  t.is(server.objects.size + server.uploads.size, 0);
});

test('a completed upload whose answer is lost has succeeded', async (t) => {
  const { server, store, write } = await open(t);
  server.fault(/^POST .*uploadId/, 'lost answer', 1);
  t.is((await write(large)).size, large.length);
  const body = await store.read('k', { signal: never });
  t.true(body !== null && large.equals(await buffer(body)));
});

test('a part that the server loses is noticed, and the shorter object is removed', async (t) => {
  const { server, write } = await open(t);
  server.fault(/^POST .*uploadId/, 'lost part');
  await t.throwsAsync(write(large), { instanceOf: StoreUnavailableError });
  t.is(server.objects.size, 0);
});

test('an answer that is cut in its middle is an error, and no shorter file', async (t) => {
  const { server, store, write } = await open(t);
  await write(large);
  server.fault(/^GET /, 'cut body');
  const body = await store.read('k', { signal: never });
  await t.throwsAsync(async () => body && (await buffer(body)));
});

test('many keys are removed one by one where the server cannot do it at once', async (t) => {
  const { server, store } = await open(t);
  const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
  for (const key of keys) await store.write(key, Readable.from(['x']), { maxBytes: 9, signal: never });
  server.fault(/^POST .*delete/, 500, 4);
  await store.remove(keys);
  t.is(server.objects.size, 0);
});

test('a file that is too large for one copy is copied in parts', async (t) => {
  const { server, store, write } = await open(t, { maxCopyBytes: 5 * mib });
  await write(large);
  t.true(await store.copy('k', 'l'));
  t.true(server.objects.get('l')?.bytes.equals(large));
  server.fault(/^POST .*uploadId/, 'lost part');
  await t.throwsAsync(store.copy('k', 'm'), { instanceOf: StoreUnavailableError });
  t.is(server.uploads.size, 0);
});

test('a wrong secret is unavailable, not missing', async (t) => {
  const { server } = await open(t);
  const store = createS3Store(openBucket({ ...server.settings, secretAccessKey: 'wrong' }));
  await t.throwsAsync(store.read('k', { signal: never }), { instanceOf: StoreUnavailableError });
  const other = createS3Store(openBucket({ ...server.settings, bucket: 'other' }));
  await t.throwsAsync(other.read('k', { signal: never }), { instanceOf: StoreUnavailableError });
});

test('the server of these tests answers the AWS client as Amazon does', async (t) => {
  const { server, store } = await open(t);
  for (const key of ['a', 'b', 'c', 'd', 'e']) {
    await store.write(key, Readable.from([key]), { maxBytes: 9, signal: never });
  }
  const { endpoint, region, accessKeyId, secretAccessKey } = server.settings;
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
  });
  const page = await client.send(new ListObjectsV2Command({ Bucket: 'files' }));
  t.true(page.IsTruncated);
  t.is(page.Contents?.length, 4);
  const body = await store.read('e', { signal: never });
  t.is(body && (await text(body)), 'e');
});

test('parts are as many as S3 takes', (t) => {
  const gb = 1e9;
  t.is(partSizeOf(gb), 5 * mib);
  t.is(partSizeOf(53 * gb), 8 * mib);
  for (const size of [52 * gb, 84 * gb, 500 * gb]) t.true(size / partSizeOf(size) <= 10_000);
});
