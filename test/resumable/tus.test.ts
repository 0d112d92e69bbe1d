/** Resumable uploads over both drivers, with tus-js-client and with bare requests. */
import { fork } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { request } from 'node:http';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import * as tus from 'tus-js-client';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import { testEnv } from '#test/support/env.ts';
import { startS3Server } from '#test/support/s3-server.ts';
import { until } from '#test/support/until.ts';
import { all, temporaryFolder } from '#test/object-store/stores.ts';
import { type Finished, type Place, type TusAppOptions, openPlace, startTusApp } from './tus-app.ts';

const mib = 2 ** 20;
const never = new AbortController().signal;
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const places: Readonly<Record<string, (t: ExecutionContext) => Promise<Place>>> = {
  disk: async (t) => ({ root: await temporaryFolder(t) }),
  s3: async (t) => ({ s3: (await startS3Server(t)).settings }),
};

const redis = () => ({ redisUrl: testEnv('REDIS_URL'), prefix: `test-${randomUUID()}` });

const start = async (t: ExecutionContext, options: Omit<TusAppOptions, 'redisUrl' | 'prefix'>, own = redis()) => {
  const finished: Finished[] = [];
  const app = await startTusApp({ onFinished: (file) => finished.push(file), ...own, ...options });
  t.teardown(app.close);
  return { ...app, finished };
};

const headers = { 'Tus-Resumable': '1.0.0', Authorization: 'me' };
const patchHeaders = { ...headers, 'Content-Type': 'application/offset+octet-stream' };

const create = (url: string, length: number, more: Record<string, string> = {}, body?: Uint8Array<ArrayBuffer>) =>
  fetch(url, {
    method: 'POST',
    headers: { ...headers, 'Upload-Length': String(length), ...more },
    ...(body && { body }),
  });

const created = async (url: string, length: number): Promise<string> =>
  (await create(url, length)).headers.get('location') ?? '';

const patch = (url: string, offset: number, body: Uint8Array<ArrayBuffer>, more: Record<string, string> = {}) =>
  fetch(url, { method: 'PATCH', headers: { ...patchHeaders, 'Upload-Offset': String(offset), ...more }, body });

const head = (url: string) => fetch(url, { method: 'HEAD', headers });

const offsetOf = async (url: string): Promise<number> => Number((await head(url)).headers.get('upload-offset'));

const uploadWith = (file: Buffer, options: tus.UploadOptions): Promise<tus.Upload> =>
  new Promise((resolve, reject) => {
    const upload = new tus.Upload(file, {
      headers: { Authorization: 'me' },
      retryDelays: [],
      ...options,
      onError: reject,
      onSuccess: () => resolve(upload),
    });
    upload.start();
  });

const isStored = async (t: ExecutionContext, store: StorageDriver, file: Finished | undefined, bytes: Buffer) => {
  t.is(file?.size, bytes.length);
  t.is(file?.sha256, sha256(bytes));
  const body = await store.read(file?.key ?? 'none', { signal: never });
  t.true(body !== null && bytes.equals(await buffer(body)));
  t.deepEqual(await all(store.unfinished()), []);
};

const sum = (part: Uint8Array) => ({
  'Upload-Checksum': `sha1 ${createHash('sha1').update(part).digest('base64')}`,
});

const startProcess = async (t: ExecutionContext, options: TusAppOptions) => {
  const child = fork(path.join(import.meta.dirname, 'tus-child.ts'), [JSON.stringify(options)]);
  t.teardown(() => child.kill('SIGKILL'));
  const finished: Finished[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the process ended')));
    child.on('message', (message: { url?: string; finished?: Finished }) => {
      if (message.finished) finished.push(message.finished);
      if (message.url !== undefined) resolve(message.url);
    });
  });
  return { url, finished, kill: () => child.kill('SIGKILL') };
};

for (const [driver, openIn] of Object.entries(places)) {
  const check = (title: string, run: (t: ExecutionContext, place: Place) => Promise<void>): void =>
    test(`${driver}: ${title}`, async (t) => run(t, await openIn(t)));

  check('tus-js-client uploads a file, in one request, in several, and with its creation', async (t, place) => {
    const app = await start(t, place);
    const bytes = randomBytes(13 * mib + 5);
    const ways = [
      {},
      { chunkSize: 6 * mib },
      { chunkSize: 3 * mib },
      { chunkSize: 6 * mib, uploadDataDuringCreation: true },
    ];
    for (const way of ways) {
      await uploadWith(bytes, { ...way, endpoint: app.url, metadata: { filename: '../../ä name' } });
      const file = app.finished.pop();
      await isStored(t, app.store, file, bytes);
      t.is(file?.name, '../../ä name');
    }
    t.deepEqual(app.finished, []);
  });

  check('an empty file is one', async (t, place) => {
    const app = await start(t, place);
    t.is((await create(app.url, 0)).status, 201);
    await isStored(t, app.store, app.finished[0], Buffer.alloc(0));
    t.is(app.finished.length, 1);
  });

  check(
    'a process that is killed in the middle of a request loses nothing, and another one goes on',
    async (t, place) => {
      const options = { ...place, ...redis() };
      const [first, second] = [await startProcess(t, options), await startProcess(t, options)];
      const bytes = randomBytes(40 * mib);
      let url = '';
      await t.throwsAsync(
        uploadWith(bytes, {
          endpoint: first.url,
          onProgress: (sent) => sent > 20 * mib && first.kill(),
          onBeforeRequest: (sending) => {
            if (sending.getMethod() === 'PATCH') url = sending.getURL();
          },
        }),
      );
      // The lease of the dead process ends, and what it wrote is there.
      const there = url.replace(first.url, second.url);
      await until(async () => (await head(there)).status === 200);
      t.true((await offsetOf(there)) > 0);
      await uploadWith(bytes, { uploadUrl: there, chunkSize: 6 * mib });
      await until(() => second.finished.length === 1);
      await isStored(t, openPlace(place).store, second.finished[0], bytes);
    },
  );

  check('two processes take turns, and the file is whole', async (t, place) => {
    const own = redis();
    const [a, b] = [await start(t, place, own), await start(t, place, own)];
    const bytes = randomBytes(11 * mib + 1);
    const url = await created(a.url, bytes.length);
    const pieces = [0, 2 * mib, 8 * mib, 8 * mib + 3, bytes.length];
    for (let i = 0; i < 4; i += 1) {
      const [from, to] = [pieces[i] ?? 0, pieces[i + 1] ?? 0];
      const there = i % 2 === 0 ? url : url.replace(a.url, b.url);
      const answer = await patch(there, from, bytes.subarray(from, to));
      t.is(answer.status, 204);
      t.is(answer.headers.get('upload-offset'), String(to));
      t.is(await offsetOf(there), to);
    }
    await isStored(t, b.store, b.finished[0], bytes);
  });

  check(
    'a request that asks for a held upload gets it: the older one ends, and its bytes are kept',
    async (t, place) => {
      const own = redis();
      const [a, b] = [await start(t, place, own), await start(t, place, own)];
      const bytes = randomBytes(7 * mib);
      const url = await created(a.url, bytes.length);
      const held = request(url, {
        method: 'PATCH',
        headers: { ...patchHeaders, 'Upload-Offset': '0', 'Content-Length': String(bytes.length) },
      });
      held.on('error', () => {});
      t.teardown(() => held.destroy());
      await new Promise<void>((resolve) => {
        held.write(bytes.subarray(0, 6 * mib), () => resolve());
      });
      const there = url.replace(a.url, b.url);
      const offset = await until(async () => {
        const answer = await head(there);
        return answer.status === 200 && Number(answer.headers.get('upload-offset'));
      });
      t.true(offset > 0 && offset <= 6 * mib);
      t.is((await patch(there, offset, bytes.subarray(offset))).status, 204);
      await isStored(t, b.store, b.finished[0], bytes);
    },
  );

  check('a wrong checksum is 460 and keeps nothing, a right one is taken', async (t, place) => {
    const app = await start(t, place);
    const bytes = randomBytes(14 * mib);
    const url = await created(app.url, bytes.length);
    const [one, two] = [bytes.subarray(0, mib), bytes.subarray(mib)];
    t.is((await patch(url, 0, one, sum(one))).status, 204);
    for (let i = 0; i < 2; i += 1) {
      t.is((await patch(url, mib, two, sum(one))).status, 460);
      t.is(await offsetOf(url), mib);
    }
    t.is((await patch(url, mib, two.subarray(0, 100))).status, 204);
    t.is((await patch(url, mib + 100, two.subarray(100), { 'Upload-Checksum': 'crc32 x' })).status, 400);
    t.is((await patch(url, mib + 100, two.subarray(100), sum(two.subarray(100)))).status, 204);
    await isStored(t, app.store, app.finished[0], bytes);
    const options = await fetch(app.url, { method: 'OPTIONS' });
    t.regex(options.headers.get('tus-checksum-algorithm') ?? '', /sha1/);
    t.is(options.headers.get('tus-extension'), 'creation,creation-with-upload,expiration,checksum,termination');
  });

  check('a body with a checksum that is cut off is not kept, and the upload goes on', async (t, place) => {
    const { uploads, store } = openPlace(place);
    const bytes = randomBytes(6 * mib);
    const info = { id: randomUUID(), key: 'files/one', size: bytes.length, metadata: {}, context: {} };
    await uploads.create({ ...info, createdAt: 0, expiresAt: 0 });
    const found = async () => {
      const upload = await uploads.find(info.id);
      if (upload === null) throw new Error('the upload is gone');
      return upload;
    };
    const cutOff = async function* cutOff() {
      yield randomBytes(3 * mib);
      throw new Error('client gone');
    };
    const one = async function* one(from: number, to: number) {
      yield bytes.subarray(from, to);
    };
    await uploads.append(await found(), one(0, 100));
    const checksum = { algorithm: 'sha1', digest: Buffer.alloc(20) };
    await t.throwsAsync(uploads.append(await found(), cutOff(), checksum), { message: 'client gone' });
    t.is((await found()).offset, 100);
    await uploads.append(await found(), one(100, mib));
    t.is((await found()).offset, mib);
    await t.throwsAsync(uploads.append(await found(), cutOff()), { message: 'client gone' });
    t.is((await found()).offset, 4 * mib);
    const other = openPlace(place).uploads;
    await other.append({ info: (await found()).info, offset: 4 * mib }, one(4 * mib, bytes.length));
    const { sha256: hash } = await other.complete((await found()).info);
    const body = await store.read(info.key, { signal: never });
    t.is(body && sha256(await buffer(body)), hash);
  });

  check('a wrong offset is 409, and changes nothing', async (t, place) => {
    const app = await start(t, place);
    const url = await created(app.url, 10);
    t.is((await patch(url, 0, Buffer.from('01234'))).status, 204);
    for (const offset of [0, 4, 6, 10]) t.is((await patch(url, offset, Buffer.from('x'))).status, 409);
    t.is((await patch(url, 5, Buffer.from('567890'))).status, 413);
    t.is(await offsetOf(url), 5);
    t.is((await patch(url, 5, Buffer.from('56789'))).status, 204);
    await isStored(t, app.store, app.finished[0], Buffer.from('0123456789'));
  });

  check('what is not allowed is refused, and makes nothing', async (t, place) => {
    const app = await start(t, { ...place, maxSize: 100 });
    t.is((await create(app.url, 101)).status, 413);
    t.is((await create(app.url, 10, { Authorization: 'stranger' })).status, 403);
    t.is((await create(app.url, 10, { 'Upload-Concat': 'partial' })).status, 501);
    t.is((await fetch(app.url, { method: 'POST', headers: { ...headers, 'Upload-Defer-Length': '1' } })).status, 501);
    t.is((await fetch(app.url, { method: 'POST', headers: { 'Upload-Length': '1' } })).status, 412);
    t.is((await create(app.url, -1)).status, 400);
    t.deepEqual(await all(app.uploads.expired(Infinity)), []);
    const url = await created(app.url, 10);
    for (const method of ['HEAD', 'PATCH', 'DELETE']) {
      const sent = { method, headers: { ...patchHeaders, 'Upload-Offset': '0', Authorization: 'other' } };
      t.is((await fetch(url, sent)).status, 404);
      for (const id of [randomUUID(), '..%2f..%2fetc', '%00', 'x']) {
        const answer = await fetch(`${app.url}/${id}`, {
          ...sent,
          headers: { ...sent.headers, Authorization: 'me' },
        });
        t.is(answer.status, 404, `${method} ${id}`);
      }
    }
    t.is(await offsetOf(url), 0);
  });

  check('an end that fails is repeated by the next request, and the file is there once', async (t, place) => {
    let failures = 2;
    const ended: Finished[] = [];
    const onFinished = (file: Finished): void => {
      ended.push(file);
      failures -= 1;
      if (failures >= 0) throw new Error('Postgres is away');
    };
    const app = await start(t, { ...place, onFinished });
    const bytes = randomBytes(6 * mib);
    const url = await created(app.url, bytes.length);
    const answer = await patch(url, 0, bytes);
    t.is(answer.status, 500);
    t.notRegex(await answer.text(), /Postgres/);
    t.is((await head(url)).status, 500);
    const last = await head(url);
    t.is(last.status, 200);
    t.is(last.headers.get('upload-offset'), String(bytes.length));
    t.is((await head(url)).status, 200);
    t.is(ended.length, 3);
    t.is(new Set(ended.map((file) => JSON.stringify(file))).size, 1);
    await isStored(t, app.store, ended[0], bytes);
    t.is((await fetch(url, { method: 'DELETE', headers })).status, 400);
  });

  check('an upload that its client ends, or whose time is over, leaves nothing', async (t, place) => {
    const app = await start(t, place);
    const url = await created(app.url, 9 * mib);
    await patch(url, 0, randomBytes(7 * mib));
    t.is((await fetch(url, { method: 'DELETE', headers })).status, 204);
    t.is((await head(url)).status, 404);
    t.is(app.removed.length, 1);
    const info = { id: randomUUID(), key: 'files/late', size: 9 * mib, metadata: {}, context: { owner: 'me' } };
    await app.uploads.create({ ...info, createdAt: 0, expiresAt: Date.now() - 1 });
    const late = `${app.url}/${info.id}`;
    t.is((await patch(late, 0, randomBytes(7 * mib))).status, 410);
    t.is((await head(late)).status, 410);
    const kept = await created(app.url, 1);
    t.is(await app.tus.removeExpired(), 1);
    t.is(app.removed.length, 2);
    t.is((await head(late)).status, 404);
    t.is((await head(kept)).status, 200);
    t.is((await fetch(kept, { method: 'DELETE', headers })).status, 204);
    t.deepEqual(await all(app.store.unfinished()), []);
    t.deepEqual(await all(app.store.list('')), []);
    t.deepEqual(await all(app.uploads.expired(Infinity)), []);
  });
}
