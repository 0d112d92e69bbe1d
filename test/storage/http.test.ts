import { once } from 'node:events';
import { request } from 'node:http';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import test from 'ava';
import { until } from '#test/support/until.ts';
import type { TestProject } from '#test/support/client.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const mb = 1_000_000;
const settings = {
  PLINTH_FILE_BYTES_ENTERPRISE: String(mb),
  PLINTH_FILE_BYTES_FREE: String(mb / 2),
  PLINTH_STORAGE_BYTES_FREE: String(mb),
  PLINTH_TRANSFERS_PER_PROJECT: '20',
};
const { admin, developer, fetchFile, newBucket, newProject, platform, project, sql, stranger } = useStorage(test, {
  settings,
});

/** A public bucket with one file of digits. */
const digits = '0123456789';
const file = async (options = {}, name = 'digits.txt') => {
  const bucket = await newBucket({ public: true });
  dataOf(
    await admin()
      .from(bucket)
      .upload(name, digits, { contentType: 'text/plain', ...options }),
  );
  const get = (headers: Record<string, string> = {}, init: RequestInit = {}) =>
    fetchFile(`/object/public/${bucket}/${encodeURIComponent(name)}`, { headers, ...init });
  return { bucket, get };
};

/** The files of a project's objects. */
const storedKeys = async (of: TestProject): Promise<string[]> => {
  const root = path.join(platform().config.DATA_DIR, 'storage', 'objects', of.id);
  const all = await readdir(root, { recursive: true }).catch(() => []);
  return all.filter((name) => /-7[0-9a-f]{3}-/.test(name));
};

test('a small file that was read before is not served once it is replaced, closed to the caller or deleted', async (t) => {
  const bucket = await newBucket({ public: true });
  const files = admin().from(bucket);
  const put = async (content: string) => dataOf(await files.upload('s.txt', content, { upsert: true }));
  const read = async () => {
    const answer = await fetchFile(`/object/public/${bucket}/s.txt`);
    return answer.status === 200 ? await answer.text() : answer.status;
  };
  await put('old');
  t.deepEqual([await read(), await read()], ['old', 'old']);
  await put('newer');
  t.deepEqual([await read(), await read()], ['newer', 'newer']);
  dataOf(await admin().updateBucket(bucket, { public: false }));
  t.is(await read(), 404);
  dataOf(await admin().updateBucket(bucket, { public: true }));
  t.is(await read(), 'newer');
  dataOf(await files.remove(['s.txt']));
  t.is(await read(), 404);
});

test('ranges: one, the last bytes, several, beyond the end, and none for another content', async (t) => {
  const { get } = await file();
  const of = async (range: string, more = {}) => {
    const answer = await get({ range, ...more });
    return [answer.status, answer.headers.get('content-range'), await answer.text()] as const;
  };
  t.deepEqual(await of('bytes=2-4'), [206, 'bytes 2-4/10', '234']);
  t.deepEqual(await of('bytes=7-'), [206, 'bytes 7-9/10', '789']);
  t.deepEqual(await of('bytes=-3'), [206, 'bytes 7-9/10', '789']);
  t.deepEqual(await of('bytes=-30'), [206, 'bytes 0-9/10', digits]);
  t.deepEqual(await of('bytes=8-100'), [206, 'bytes 8-9/10', '89']);
  for (const ignored of ['bytes=4-2', 'bytes=x', 'lines=1-2', 'bytes=0-5,3-7', `bytes=${'0-0,'.repeat(20)}1-1`])
    t.deepEqual((await of(ignored)).slice(0, 2), [200, null], ignored);
  const beyond = await of('bytes=10-');
  t.deepEqual(beyond.slice(0, 2), [416, 'bytes */10']);
  const several = await get({ range: 'bytes=0-1,4-5' });
  t.is(several.status, 206);
  const [, boundary = ''] =
    /^multipart\/byteranges; boundary=(.+)$/.exec(several.headers.get('content-type') ?? '') ?? [];
  const text = await several.text();
  t.is(text.length, Number(several.headers.get('content-length')));
  t.deepEqual(
    text
      .split(`--${boundary}`)
      .slice(1, -1)
      .map((part) => part.split('\r\n').filter(Boolean)),
    [
      ['Content-Type: text/plain', 'Content-Range: bytes 0-1/10', '01'],
      ['Content-Type: text/plain', 'Content-Range: bytes 4-5/10', '45'],
    ],
  );
  const etag = (await get()).headers.get('etag') ?? '';
  t.is((await of('bytes=0-1', { 'if-range': etag }))[0], 206);
  t.is((await of('bytes=0-1', { 'if-range': '"another"' }))[0], 200);
  t.is((await of('bytes=0-1', { 'if-range': `W/${etag}` }))[0], 200);
  t.is((await of('bytes=0-1', { 'if-range': 'Wed, 21 Oct 2015 07:28:00 GMT' }))[0], 200);
});

test('conditional requests save the bytes, and HEAD has the headers of GET', async (t) => {
  const { get } = await file();
  const whole = await get();
  const [etag, modified] = [whole.headers.get('etag') ?? '', whole.headers.get('last-modified') ?? ''];
  t.is(whole.headers.get('content-length'), '10');
  await whole.arrayBuffer();
  for (const [headers, status] of [
    [{ 'if-none-match': etag }, 304],
    [{ 'if-none-match': `"x", W/${etag}` }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': '"x"' }, 200],
    [{ 'if-modified-since': modified }, 304],
    [{ 'if-modified-since': 'Wed, 21 Oct 2015 07:28:00 GMT' }, 200],
    [{ 'if-modified-since': modified, 'if-none-match': '"x"' }, 200],
    [{ 'if-match': '"x"' }, 412],
    [{ 'if-match': etag }, 200],
    [{ 'if-unmodified-since': 'Wed, 21 Oct 2015 07:28:00 GMT' }, 412],
  ] as const) {
    const answer = await get(headers);
    t.is(answer.status, status, JSON.stringify(headers));
    if (status === 304) t.is(answer.headers.get('etag'), etag);
    await answer.arrayBuffer();
  }
  const head = await get({}, { method: 'HEAD' });
  for (const name of ['content-length', 'content-type', 'etag', 'accept-ranges', 'cache-control'])
    t.is(head.headers.get(name), whole.headers.get(name), name);
  t.is((await get({}, { method: 'HEAD', headers: { range: 'bytes=0-3' } })).headers.get('content-length'), '4');
});

test('what runs in a browser is saved, everything is sandboxed, and no type is guessed', async (t) => {
  for (const [type, kind] of [
    ['text/html', 'attachment'],
    ['text/html; charset=utf-8', 'attachment'],
    ['image/svg+xml', 'attachment'],
    ['application/xhtml+xml', 'attachment'],
    ['text/javascript', 'attachment'],
    ['application/xml', 'attachment'],
    ['TEXT/HTML', 'attachment'],
    ['image/png', null],
    ['text/plain', null],
    ['application/pdf', null],
  ] as const) {
    const { get } = await file({ contentType: type }, 'x.bin');
    const { headers } = await get();
    t.is(headers.get('content-type'), type);
    t.is(headers.get('content-disposition')?.split(';')[0] ?? null, kind, type);
    t.is(headers.get('x-content-type-options'), 'nosniff');
    t.regex(headers.get('content-security-policy') ?? '', /; sandbox$/);
  }
  const { get } = await file({ contentType: 'no type, at all' });
  t.is((await get()).headers.get('content-type'), 'application/octet-stream');
});

test('names are kept as they are or refused with the field named, and are never another object’s', async (t) => {
  const bucket = await newBucket();
  const { key } = project();
  const put = (raw: string) =>
    platform().client.call('POST', `/p/${project().ref}/storage/v1/object/${bucket}/${raw}`, {
      key,
      raw: raw,
      headers: { 'content-type': 'text/plain' },
    });
  const kept = [
    '.hidden',
    'é',
    'e%CC%81',
    '😀',
    'a b',
    'a%3Fb',
    'a%23b',
    'q\'u"o',
    'a%25b',
    'A',
    'a',
    '...',
    'x'.repeat(1024),
  ];
  for (const name of kept)
    t.is(
      (await put(encodeURI(decodeURIComponent(name)).replaceAll('?', '%3F').replaceAll('#', '%23'))).status,
      200,
      name,
    );
  const names = dataOf(await admin().from(bucket).list('', { limit: 100 })).map(({ name }) => name);
  t.deepEqual(names.toSorted(), kept.map((name) => decodeURIComponent(name)).toSorted());
  for (const bad of ['a//b', '/a', 'a/', 'a%0ab', 'a%7f', 'x'.repeat(1025), 'a%zz', '%ff', '%c0%ae', '%ed%a0%80']) {
    const { status, body } = await put(bad);
    t.deepEqual([status, body.code], [400, 'invalid_key'], bad);
    t.truthy(body.details[0].path);
  }
  t.is((await put('a%00b')).status, 400);
  for (const name of ['../x', 'a/../x', 'a//b', 'a\0b', '\ud800', ''])
    t.truthy((await admin().from(bucket).move('a', name)).error, name);
  for (const id of ['public', '..', 'a/b', '', 'x'.repeat(101), '-a', 'a\0'])
    t.truthy((await admin().createBucket(id)).error, id);
});

/** Sends a raw upload, and what becomes of it. */
const send = (
  name: string,
  { headers, parts, end = true }: { headers: Record<string, string>; parts: string[]; end?: boolean },
  { ref, key, slug }: TestProject = project(),
): Promise<{ status: number; body: { code?: string; message?: string; hint?: string } } | 'broken'> =>
  new Promise((resolve) => {
    const url = `${platform().base}/p/${ref}/storage/v1/object/${slug}/${name}`;
    const req = request(
      url,
      { method: 'POST', headers: { apikey: key, 'content-type': 'text/plain', ...headers } },
      (res) => {
        let text = '';
        res.on('data', (chunk) => (text += String(chunk)));
        res.on('end', () => resolve({ status: res.statusCode ?? 0, body: JSON.parse(text) as { code?: string } }));
        res.on('error', () => resolve('broken'));
      },
    );
    req.on('error', () => resolve('broken'));
    for (const part of parts) req.write(part);
    if (end) req.end();
    else req.flushHeaders();
    if (!end) setImmediate(() => setImmediate(() => req.destroy()));
  });

test('a file beyond the limit is refused by its length, in chunks and in a form, and leaves nothing', async (t) => {
  const of = await newProject();
  const big = 'x'.repeat(mb + 1);
  for (const answer of [
    await send('big', { headers: { 'content-length': String(10 * mb) }, parts: ['x'.repeat(1000)], end: false }, of),
    await send('big', { headers: { 'transfer-encoding': 'chunked' }, parts: [big.slice(0, 100), big] }, of),
  ]) {
    if (answer === 'broken') continue;
    t.like(answer, { status: 413, body: { code: 'payload_too_large' } });
    t.regex(answer.body.hint ?? '', /PLINTH_FILE_BYTES_ENTERPRISE|plan/);
  }
  const files = admin(of).from(of.slug);
  t.is((await files.upload('big', new Blob([big]))).error?.message, 'The file is larger than 1000000 bytes.');
  t.is(
    (await files.upload('big', Readable.from([big.slice(0, mb / 2), big.slice(mb / 2)]))).error?.message,
    'The file is larger than 1000000 bytes.',
  );
  dataOf(await files.upload('exact', big.slice(1)));
  dataOf(await files.remove(['exact']));
  const id = `b-${crypto.randomUUID()}`;
  dataOf(await admin().createBucket(id, { public: false, fileSizeLimit: 10, allowedMimeTypes: ['image/*'] }));
  t.is(
    (await admin().from(id).upload('a', 'x'.repeat(11), { contentType: 'image/png' })).error?.message,
    'The file is larger than 10 bytes.',
  );
  t.regex((await admin().from(id).upload('a', 'x')).error?.message ?? '', /does not take files of type text\/plain/);
  t.is((await admin().from(id).download('a')).error?.message, 'No such object.');
  t.is((await storedKeys(of)).length, 1, 'what was removed waits for its grace');
});

test('all files together are bounded exactly, however many come at once', async (t) => {
  const of = await platform().client.createProject(developer(), { plan: 'free' });
  const files = admin(of).from(of.slug);
  // A busy platform answers 503, after which a client sends the file again.
  const put = (name: string) =>
    until(async () => {
      const answer = await files.upload(name, 'x'.repeat(200_000));
      return (answer.error as { statusCode?: string } | null)?.statusCode !== '503' && answer;
    });
  const results = await Promise.all(Array.from({ length: 8 }, (_, i) => put(`f${i}`)));
  t.is(results.filter(({ error }) => error === null).length, 5);
  const refused = results.find(({ error }) => error !== null)?.error;
  t.regex(refused?.message ?? '', /^The files of the project are at their limit: .* the plan allows 1000000/);
  t.deepEqual(await sql(of, 'select count(*)::int, sum(size)::int from storage.objects'), [{ count: 5, sum: mb }]);
  dataOf(await files.remove(['f0', 'f1', 'f2', 'f3', 'f4', 'f5', 'f6', 'f7']));
  dataOf(await files.upload('again', 'x'));
});

test('a client that leaves before the end leaves nothing', async (t) => {
  const of = await newProject();
  for (const sent of [0, 1000, 499_999])
    t.is(
      await send(
        `gone-${sent}`,
        { headers: { 'content-length': '500000' }, parts: ['x'.repeat(sent)], end: false },
        of,
      ),
      'broken',
    );
  await until(async () => (await storedKeys(of)).length === 0);
  t.deepEqual(dataOf(await admin(of).from(of.slug).list()), []);
});

test('two that put one name at the same time: each is whole, and one is last', async (t) => {
  const files = admin().from(await newBucket());
  const contents = Array.from({ length: 6 }, (_, i) => String(i).repeat(100_000));
  const inserted = await Promise.all(contents.map((text) => files.upload('new', text)));
  t.is(inserted.filter(({ error }) => error === null).length, 1);
  const replaced = await Promise.all(contents.map((text) => files.upload('replaced', text, { upsert: true })));
  t.deepEqual(replaced.map(({ error }) => error?.message).filter(Boolean), []);
  for (const name of ['new', 'replaced']) t.true(contents.includes(await dataOf(await files.download(name)).text()));
});

test('a download that has begun goes on when its object is replaced or deleted', async (t) => {
  const bucket = await newBucket();
  const files = admin().from(bucket);
  const content = 'x'.repeat(900_000);
  dataOf(await files.upload('a', content));
  const { signedUrl } = dataOf(await files.createSignedUrl('a', 60));
  const [first, second] = [await fetch(signedUrl), await fetch(signedUrl)];
  dataOf(await files.upload('a', 'new', { upsert: true }));
  dataOf(await files.remove(['a']));
  t.is((await first.text()).length, content.length);
  t.is((await second.text()).length, content.length);
  t.is((await fetch(signedUrl)).status, 404);
});

test('forged, changed and expired signatures are refused', async (t) => {
  const bucket = await newBucket();
  const files = admin().from(bucket);
  dataOf(await files.upload('a', 'x'));
  dataOf(await files.upload('b', 'x'));
  const { signedUrl } = dataOf(await files.createSignedUrl('a', 1));
  const token = new URL(signedUrl).searchParams.get('token') ?? '';
  const [head, body = '', mac] = token.split('.');
  const longer = Buffer.from(
    JSON.stringify({ ...JSON.parse(Buffer.from(body, 'base64url').toString()), exp: 9e9 }),
  ).toString('base64url');
  const other = await newProject();
  for (const [at, given] of [
    ['a', `${head}.${longer}.${mac}`],
    ['a', `${head}.${body}.`],
    ['a', `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`],
    ['a', 'x'],
    ['a', ''],
    ['b', token],
  ] as const)
    t.is((await fetchFile(`/object/sign/${bucket}/${at}?token=${given}`)).status, 401, given);
  t.is((await fetchFile(`/object/sign/${bucket}/a?token=${token}`, {}, other)).status, 401);
  await until(async () => (await fetch(signedUrl)).status === 410);
  t.pass();
});

test('another project’s keys, and a wrong project, find nothing', async (t) => {
  const other = await newProject();
  const bucket = await newBucket();
  dataOf(await admin().from(bucket).upload('a', 'x'));
  t.is((await fetchFile(`/object/${bucket}/a`, { headers: { apikey: other.key } })).status, 401);
  t.is((await admin(other).from(bucket).download('a')).error?.message, 'No such object.');
  t.is(
    (await fetch(`${platform().base}/storage/v1/object/${bucket}/a`, { headers: { apikey: project().key } })).status,
    200,
  );
  t.is((await fetch(`${platform().base}/p/abcdefghijklmnopqrst/storage/v1/object/public/${bucket}/a`)).status, 404);
  t.is((await fetchFile(`/object/${bucket}/a`)).status, 401);
  t.is((await stranger().from(bucket).list()).data?.length, 0);
});

test('errors have the form that storage-js reads, and more', async (t) => {
  const answer = await fetchFile('/object/public/none/none');
  t.like(await answer.json(), { statusCode: '404', error: 'not_found', code: 'not_found', message: 'No such bucket.' });
  t.like(await (await fetchFile('/none')).json(), { statusCode: '404', code: 'not_found' });
});

test('a form whose file does not begin within its first megabyte is refused', async (t) => {
  const { ref, key, slug } = project();
  const sending = request(`${platform().base}/p/${ref}/storage/v1/object/${slug}/never`, {
    method: 'POST',
    headers: { apikey: key, 'content-type': 'multipart/form-data; boundary=b' },
  });
  sending.on('error', () => undefined);
  const answered = once(sending, 'response');
  for (let n = 0; n < 40; n += 1) sending.write(Buffer.alloc(64 * 1024, 'x'));
  sending.end('\r\n--b\r\nContent-Disposition: form-data; name=""; filename="a"\r\n\r\nx\r\n--b--\r\n');
  const [answer] = await answered;
  t.is(answer.statusCode, 400);
  t.is((await fetchFile(`/object/${slug}/never`, { headers: { apikey: key } })).status, 404);
});
