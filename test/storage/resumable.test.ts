import { createHash } from 'node:crypto';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { Upload } from 'tus-js-client';
import type { TestProject } from '#test/support/client.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const mb = 1_000_000;
const { admin, developer, newProject, platform, project, sql, user } = useStorage(test, {
  settings: { PLINTH_FILE_BYTES_FREE: String(3 * mb), PLINTH_STORAGE_BYTES_FREE: String(5 * mb) },
});

const bytes = Buffer.from(Array.from({ length: 2 * mb }, (_, i) => (i * 7) % 251));

interface Wanted {
  readonly name: string;
  readonly of?: TestProject;
  readonly headers?: Record<string, string>;
  readonly content?: Buffer;
  /** Stops after that many bytes. */
  readonly stopAfter?: number;
  readonly uploadUrl?: string;
  readonly base?: string;
  readonly metadata?: Record<string, string>;
}

/** tus-js-client as Supabase’s documents use it. Answers the address, and whether it was finished. */
const send = ({ name, of = project(), headers, content = bytes, stopAfter, uploadUrl, base, metadata }: Wanted) =>
  new Promise<{ url: string; done: boolean }>((resolve, reject) => {
    const upload = new Upload(content, {
      endpoint: `${base ?? platform().base}/p/${of.ref}/storage/v1/upload/resumable`,
      headers: headers ?? { apikey: of.key, 'x-upsert': 'false' },
      chunkSize: 500_000,
      retryDelays: null,
      uploadDataDuringCreation: true,
      ...(uploadUrl !== undefined && { uploadUrl }),
      metadata: { bucketName: of.slug, objectName: name, contentType: 'image/png', cacheControl: '60', ...metadata },
      onError: reject,
      onSuccess: () => resolve({ url: upload.url ?? '', done: true }),
      onChunkComplete: (_size, accepted) => {
        if (stopAfter === undefined || accepted < stopAfter) return;
        void upload.abort().then(() => resolve({ url: upload.url ?? '', done: false }));
      },
    });
    upload.start();
  });

const statusOf = (error: unknown): number =>
  (error as { originalResponse?: { getStatus: () => number } }).originalResponse?.getStatus() ?? 0;

const refused = async (wanted: Wanted): Promise<number> => {
  try {
    await send(wanted);
    return 0;
  } catch (error) {
    return statusOf(error);
  }
};

test('tus-js-client uploads, goes on where it broke off, and another process goes on as well', async (t) => {
  const files = admin().from(project().slug);
  t.true((await send({ name: 'whole.png' })).done);
  const info = dataOf(await files.info('whole.png'));
  t.like(info, { size: bytes.length, contentType: 'image/png', cacheControl: 'max-age=60' });
  t.is(info.etag, `"${createHash('sha256').update(bytes).digest('hex')}"`);
  const { url, done } = await send({ name: 'broken.png', stopAfter: 900_000 });
  t.false(done);
  t.is((await files.info('broken.png')).error?.message, 'No such object.');
  const other = await platform().startApi();
  t.true((await send({ name: 'broken.png', base: other, uploadUrl: url.replace(platform().base, other) })).done);
  const back = Buffer.from(await dataOf(await files.download('broken.png')).arrayBuffer());
  t.true(back.equals(bytes));
  t.is(await refused({ name: 'whole.png' }), 409);
  t.true(
    (
      await send({
        name: 'whole.png',
        headers: { apikey: project().key, 'x-upsert': 'true' },
        content: bytes.subarray(1),
      })
    ).done,
  );
  t.is(dataOf(await files.info('whole.png')).size, bytes.length - 1);
});

test('policies decide about resumable uploads, and those of others are not there', async (t) => {
  const of = await newProject();
  await sql(
    of,
    `create policy own on storage.objects for all to authenticated using (owner_id = auth.uid())
       with check (owner_id = auth.uid() and (storage.foldername(name))[1] = auth.uid()::text)`,
  );
  const [ada, bob] = [await user(of), await user(of)];
  const as = ({ token }: { token: string }) => ({ apikey: of.publishableKey, authorization: `Bearer ${token}` });
  t.is(await refused({ name: 'x.png', of, headers: as(ada) }), 403);
  t.is(await refused({ name: `${ada.id}/x.png`, of, headers: { apikey: of.publishableKey } }), 403);
  const { url } = await send({ name: `${ada.id}/x.png`, of, headers: as(ada), stopAfter: 500_000 });
  for (const headers of [as(bob), { apikey: of.publishableKey }, { apikey: of.key }])
    t.is((await fetch(url, { method: 'HEAD', headers: { ...headers, 'tus-resumable': '1.0.0' } })).status, 404);
  t.true((await send({ name: `${ada.id}/x.png`, of, headers: as(ada), uploadUrl: url })).done);
  t.deepEqual(await sql(of, 'select name, owner_id from storage.objects'), [
    { name: `${ada.id}/x.png`, owner_id: ada.id },
  ]);
});

test('limits, names, offsets and checksums are checked, and an ended upload frees its room', async (t) => {
  const of = await platform().client.createProject(developer(), { plan: 'free' });
  t.is(await refused({ name: 'large', of, content: Buffer.alloc(3 * mb + 1) }), 413);
  t.is(await refused({ name: 'a//b', of }), 400);
  t.is(await refused({ name: 'a', of, metadata: { bucketName: 'none' } }), 404);
  const tus = { 'tus-resumable': '1.0.0', apikey: of.key };
  const { url } = await send({ name: 'a', of, stopAfter: 500_000 });
  const second = await send({ name: 'b', of, stopAfter: 500_000 });
  t.is(await refused({ name: 'c', of }), 403, 'three of 2 MB are more than 5 MB');
  const patch = (headers: Record<string, string>, body = 'x') =>
    fetch(url, {
      method: 'PATCH',
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', ...headers },
      body,
    });
  t.is((await patch({ 'upload-offset': '1' })).status, 409);
  const offset = (await fetch(url, { method: 'HEAD', headers: tus })).headers.get('upload-offset') ?? '';
  t.true(Number(offset) >= 500_000);
  t.is((await patch({ 'upload-offset': offset, 'upload-checksum': 'sha1 AAAA' })).status, 460);
  t.is((await fetch(url, { method: 'HEAD', headers: tus })).headers.get('upload-offset'), offset);
  t.is((await fetch(second.url, { method: 'DELETE', headers: tus })).status, 204);
  t.true((await send({ name: 'c', of })).done);
  t.is((await fetch(url, { method: 'DELETE', headers: tus })).status, 204);
  t.is((await fetch(url, { method: 'HEAD', headers: tus })).status, 404);
  t.deepEqual(
    dataOf(await admin(of).from(of.slug).list()).map(({ name }) => name),
    ['c'],
  );
});

test('OPTIONS says what the server can do to whoever asks, and a preflight lets every page send what tus needs', async (t) => {
  const of = await platform().client.createProject(developer(), { plan: 'free' });
  const url = `${platform().base}/p/${of.ref}/storage/v1/upload/resumable`;
  for (const at of [url, `${url}/${crypto.randomUUID()}`]) {
    const { status, headers } = await fetch(at, { method: 'OPTIONS' });
    const said = ['tus-resumable', 'tus-version', 'tus-extension', 'tus-max-size', 'tus-checksum-algorithm'];
    t.deepEqual(
      [status, ...said.map((name) => headers.get(name))],
      [
        204,
        '1.0.0',
        '1.0.0',
        'creation,creation-with-upload,expiration,checksum,termination',
        String(3 * mb),
        'md5,sha1,sha256,sha512',
      ],
    );
    const preflight = await fetch(at, {
      method: 'OPTIONS',
      headers: { origin: 'https://site.example', 'access-control-request-method': 'PATCH' },
    });
    t.is(preflight.headers.get('access-control-allow-origin'), '*');
    for (const name of ['Tus-Resumable', 'Upload-Offset', 'Upload-Metadata', 'Upload-Checksum', 'x-upsert', 'apikey'])
      t.true(preflight.headers.get('access-control-allow-headers')?.split(', ').includes(name), name);
    t.regex(preflight.headers.get('access-control-allow-methods') ?? '', /POST.*PATCH.*DELETE/);
  }
  t.is((await fetch(url.replace(of.ref, 'abcdefghijklmnopqrst'), { method: 'OPTIONS' })).status, 404);
});

test('an upload says when it expires, and is 410 from then on', async (t) => {
  const of = await newProject();
  const { url } = await send({ name: 'late', of, stopAfter: 500_000 });
  const tus = { 'tus-resumable': '1.0.0', apikey: of.key };
  const patch = () =>
    fetch(url, {
      method: 'PATCH',
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '500000' },
      body: 'x',
    });
  const first = await patch();
  t.is(first.status, 204);
  const expires = Date.parse(first.headers.get('upload-expires') ?? '');
  t.true(expires > Date.now() && expires <= Date.now() + 24 * 3_600_000);
  const folder = path.join(platform().config.DATA_DIR, 'storage', 'uploads');
  const id = url.slice(url.lastIndexOf('/') + 1);
  const name = (await readdir(folder, { recursive: true })).find((one) => one.endsWith(`${id}.json`)) ?? '';
  const file = path.join(folder, name);
  await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, 'utf8')), expiresAt: Date.now() - 1 }));
  for (const answer of [await patch(), await fetch(url, { method: 'HEAD', headers: tus })]) t.is(answer.status, 410);
  t.is((await admin(of).from(of.slug).download('late')).error?.message, 'No such object.');
});
