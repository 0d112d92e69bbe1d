import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import path from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import test from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { connectTo, parseAnswer, readToEnd } from '#test/support/raw-http.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const mb = 1_000_000;
const { admin, newProject, platform } = useStorage(test, {
  settings: {
    PLINTH_BODY_MIN_RATE: String(mb),
    PLINTH_STALLED_ANSWER_MS: '1000',
    PLINTH_TRANSFERS_PER_PROJECT: '1',
  },
});

const inFolder = async (folder: string): Promise<string[]> => {
  const all = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return all.filter((entry) => entry.isFile()).map(({ name }) => name);
};

const linesOf = (head: string, headers: Record<string, string | number>): string =>
  [head, 'Host: x', ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), '', ''].join('\r\n');

const beginTus = async (base: string, { ref, key, slug }: TestProject, name: string, size: number): Promise<string> => {
  const metadata = Object.entries({ bucketName: slug, objectName: name });
  const answer = await fetch(`${base}/p/${ref}/storage/v1/upload/resumable`, {
    method: 'POST',
    headers: {
      apikey: key,
      'tus-resumable': '1.0.0',
      'upload-length': String(size),
      'upload-metadata': metadata.map(([field, value]) => `${field} ${btoa(value)}`).join(','),
    },
  });
  return new URL(answer.headers.get('location') ?? '').pathname;
};

const tusHeaders = ({ key }: TestProject) => ({ apikey: key, 'tus-resumable': '1.0.0' });

const offsetOf = async (url: string, of: TestProject): Promise<number> =>
  Number((await fetch(url, { method: 'HEAD', headers: tusHeaders(of) })).headers.get('upload-offset'));

test('an upload that arrives too slowly is ended with 408 and leaves nothing; what came of a resumable one is kept', async (t) => {
  t.timeout(longTestMs);
  const { base, config } = platform();
  const [of, resuming] = [await newProject(), await newProject()];
  const slow = async (head: string, body: string): Promise<string> => {
    const socket = await connectTo(base);
    const answer = readToEnd(socket);
    socket.write(head + body);
    return answer;
  };
  const upload = await beginTus(base, resuming, 'slow', 2 * mb);
  const length = { 'Content-Length': 2 * mb };
  const [plain, patch] = await Promise.all([
    slow(
      linesOf(`POST /p/${of.ref}/storage/v1/object/${of.slug}/slow HTTP/1.1`, { apikey: of.key, ...length }),
      'x'.repeat(300_000),
    ),
    slow(
      linesOf(`PATCH ${upload} HTTP/1.1`, {
        ...tusHeaders(resuming),
        ...length,
        'Content-Type': 'application/offset+octet-stream',
        'Upload-Offset': 0,
      }),
      'x'.repeat(300_000),
    ),
  ]);
  const { status, body, headers } = parseAnswer(plain);
  t.deepEqual([status, body.code, headers['connection']], [408, 'request_timeout', 'close']);
  t.is((await admin(of).from(of.slug).download('slow')).error?.message, 'No such object.');
  t.is(patch, '');
  await until(async () => (await offsetOf(base + upload, resuming)) === 300_000);
  t.deepEqual(await inFolder(path.join(config.DATA_DIR, 'storage', 'unfinished')), []);
});

test('a download that its client does not read is ended, and its place is free again', async (t) => {
  const of = await newProject();
  const size = 24 * mb;
  dataOf(
    await admin(of)
      .from(of.slug)
      .upload('large', new Blob(['x'.repeat(size)])),
  );
  const url = `/p/${of.ref}/storage/v1/object/${of.slug}/large`;
  const socket = await connectTo(platform().base);
  socket.on('error', () => undefined);
  socket.write(linesOf(`GET ${url} HTTP/1.1`, { apikey: of.key }));
  await once(socket, 'readable');
  const get = () => fetch(platform().base + url, { headers: { apikey: of.key, range: 'bytes=0-3' } });
  const refused = await get();
  t.is(refused.status, 503, await refused.text());
  await until(async () => (await get()).status === 206);
  let read = 0;
  socket.on('data', ({ length }: Buffer) => (read += length));
  if (!socket.closed) await once(socket, 'close');
  t.true(read < size, String(read));
});

test('whom no policy allows an upload is refused before a byte of it is taken', async (t) => {
  const of = await newProject();
  const answerTo = async (key: string): Promise<string> => {
    const socket = await connectTo(platform().base);
    const headers = { apikey: key, 'Content-Length': 400_000, Expect: '100-continue' };
    socket.write(linesOf(`POST /p/${of.ref}/storage/v1/object/${of.slug}/large HTTP/1.1`, headers));
    const [first] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    return first.toString().slice(0, 12);
  };
  t.is(await answerTo(of.publishableKey), 'HTTP/1.1 403');
  t.is(await answerTo(of.key), 'HTTP/1.1 100');
});

/** The target of the request is sent as it is: `fetch` would resolve its dots. */
const sendTo = async (target: string, headers: OutgoingHttpHeaders): Promise<{ status: number; body: string }> => {
  const req = request(platform().base, { path: target, method: 'POST', headers });
  req.end('x');
  const [res] = (await once(req, 'response')) as [IncomingMessage];
  return { status: res.statusCode ?? 0, body: await text(res) };
};

test('dots and slashes in a path are refused and never resolved, escaped or not', async (t) => {
  const of = await newProject();
  const root = `/p/${of.ref}/storage/v1/object/${of.slug}`;
  for (const bad of [
    '..',
    '../x',
    'a/../b',
    './a',
    'a/.',
    '%2e%2e',
    'a/%2e%2e/b',
    '%2E%2E%2Fx',
    'a//b',
    'a/%2fb',
    '%2fa',
  ]) {
    const { status, body } = await sendTo(`${root}/${bad}`, { apikey: of.key, 'content-type': 'text/plain' });
    t.deepEqual([status, (JSON.parse(body) as { code: string }).code], [400, 'invalid_key'], bad);
  }
  t.deepEqual(dataOf(await admin(of).from(of.slug).list()), []);
});

const diskMb = 3;
const smallDisk = [
  'unshare',
  '--user',
  '--map-root-user',
  '--mount',
  '--',
  'sh',
  '-c',
  `mount -t tmpfs -o size=${diskMb}m tmpfs "$DATA_DIR" && exec "$0" "$@"`,
];
const canMount = spawnSync('unshare', [...smallDisk.slice(1, 5), 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;

(canMount ? test : test.skip)(
  'a full disk is 507 storage_full, of the file nothing stays, and there is room again',
  async (t) => {
    t.timeout(longTestMs);
    const of = await newProject();
    const dataDir = path.join(platform().config.DATA_DIR, 'small-disk');
    mkdirSync(dataDir, { recursive: true });
    const environment = { ...environmentOf(platform().config), PORT: '0', DATA_DIR: dataDir };
    const api = startProcess('api/server.ts', environment, smallDisk);
    t.teardown(() => api.child.kill('SIGKILL'));
    const { port } = await api.ready;
    const base = `http://127.0.0.1:${port}`;
    const put = async (name: string, size: number, isChunked = false) => {
      const answer = await fetch(`${base}/p/${of.ref}/storage/v1/object/${of.slug}/${name}`, {
        method: 'POST',
        headers: { apikey: of.key, 'content-type': 'text/plain' },
        body: isChunked ? Readable.toWeb(Readable.from(['x'.repeat(size)])) : 'x'.repeat(size),
        duplex: 'half',
      });
      return { status: answer.status, body: (await answer.json()) as { code?: string; hint?: string } };
    };
    t.is((await put('first', mb)).status, 200);
    for (const isChunked of [false, true]) {
      const { status, body } = await put('too-large', 4 * mb, isChunked);
      t.deepEqual([status, body.code], [507, 'storage_full']);
      t.regex(body.hint ?? '', /Nothing of it was kept/);
    }
    t.is((await admin(of).from(of.slug).info('too-large')).error?.message, 'No such object.');

    const upload = base + (await beginTus(base, of, 'resumed', 4 * mb));
    const patch = await fetch(upload, {
      method: 'PATCH',
      headers: { ...tusHeaders(of), 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
      body: 'x'.repeat(4 * mb),
    });
    t.deepEqual([patch.status, ((await patch.json()) as { code?: string }).code], [507, 'storage_full']);
    t.is((await fetch(upload, { method: 'DELETE', headers: tusHeaders(of) })).status, 204);
    t.is((await put('fits', 1.9 * mb)).status, 200, 'there is room for it only when nothing else stayed');
    api.child.kill('SIGTERM');
    await api.end;
  },
);
