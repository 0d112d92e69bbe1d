import sharp from 'sharp';
import test from 'ava';
import { until } from '#test/support/until.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, fetchFile, newBucket, platform, project, stranger } = useStorage(test, {});

const png = (width: number, height: number): Promise<Buffer> =>
  sharp({ create: { width, height, channels: 3, background: '#336699' } })
    .png()
    .toBuffer();

const sizeOf = async (blob: Blob): Promise<string> => {
  const { width, height, format } = await sharp(Buffer.from(await blob.arrayBuffer())).metadata();
  return `${width}x${height} ${format}`;
};

/** How many pictures were made. */
const jobs = async (): Promise<number> => {
  const rows = await platform().db.query<{ n: number }>(
    `select count(*)::int as n from jobs where project_id = $1 and type = 'storage.render'`,
    [project().id],
  );
  return rows[0]?.n ?? 0;
};

test('pictures are made by download, public and signed addresses, and kept', async (t) => {
  const bucket = await newBucket({ public: true });
  const files = admin().from(bucket);
  dataOf(await files.upload('a.png', await png(400, 200), { contentType: 'image/png' }));
  const small = dataOf(await files.download('a.png', { transform: { width: 100, height: 100 } }));
  t.is(await sizeOf(small), '100x100 png');
  t.is(
    await sizeOf(dataOf(await files.download('a.png', { transform: { width: 100, height: 100, resize: 'contain' } }))),
    '100x50 png',
  );
  const { publicUrl } = stranger()
    .from(bucket)
    .getPublicUrl('a.png', { transform: { width: 40, format: 'webp' as 'origin' } }).data;
  const first = await fetch(publicUrl);
  t.is(first.headers.get('content-type'), 'image/webp');
  t.is(await sizeOf(await first.blob()), '40x20 webp');
  const before = await jobs();
  const again = await fetch(publicUrl, { headers: { 'if-none-match': first.headers.get('etag') ?? '' } });
  t.is(again.status, 304);
  t.is(await jobs(), before, 'it was kept');
  const { signedUrl } = dataOf(await files.createSignedUrl('a.png', 60, { transform: { width: 50 } }));
  t.is(
    await sizeOf(await (await fetch(`${signedUrl}&width=10`)).blob()),
    '50x25 png',
    'the options are those that were signed',
  );
  t.is((await fetch(signedUrl.replace('render/image/sign', 'object/sign'))).status, 404, 'and not for the original');
  dataOf(await files.upload('a.png', await png(300, 300), { upsert: true, contentType: 'image/png' }));
  t.is(await sizeOf(await (await fetch(publicUrl)).blob()), '40x40 webp', 'of the new content');
});

test('what is no picture, too large, or not to be seen is refused', async (t) => {
  const closed = await newBucket();
  const files = admin().from(closed);
  dataOf(await files.upload('text.png', 'no picture', { contentType: 'image/png' }));
  const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
  dataOf(await files.upload('a.svg', svg, { contentType: 'image/svg+xml' }));
  const bomb = await sharp({ create: { width: 6000, height: 6000, channels: 3, background: '#000' } })
    .png()
    .toBuffer();
  dataOf(await files.upload('bomb.png', bomb, { contentType: 'image/png' }));
  const { key } = project();
  const statusOf = async (name: string, query: string): Promise<number> =>
    (await fetchFile(`/render/image/authenticated/${closed}/${name}?${query}`, { headers: { apikey: key } })).status;
  t.is(await statusOf('text.png', 'width=10'), 415);
  t.is(await statusOf('a.svg', 'width=10'), 415);
  t.is(await statusOf('bomb.png', 'width=10'), 413);
  t.is(await statusOf('bomb.png', 'width=0'), 400);
  t.is(await statusOf('none.png', 'width=10'), 404);
  t.is((await fetchFile(`/render/image/public/${closed}/bomb.png?width=10`)).status, 404);
  t.truthy(
    (
      await stranger()
        .from(closed)
        .download('bomb.png', { transform: { width: 10 } })
    ).error,
  );
  await until(async () => (await platform().client.call('GET', '/healthz')).status === 200);
});
