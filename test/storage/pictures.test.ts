/** Transformed pictures, and those that would cost too much: they are made here, not kept as files. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { crc32, deflateSync } from 'node:zlib';
import test from 'ava';
import sharp from 'sharp';
import { parsePictureOptions, pictureOptionsText } from '#domain/storage/pictures/options.ts';
import { maxPictureBytes, renderPicture } from '#domain/storage/pictures/render.ts';
import { ServiceError } from '#lib/errors.ts';

const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: { r: 200, g: 30, b: 30 } } });

const options = (given: Record<string, unknown> = {}) => parsePictureOptions(given);

const chunk = (type: string, data: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
};

/** A PNG whose header says more than its data holds, or as much in a few KB. */
const png = (width: number, height: number, data: Buffer): Buffer => {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 0, 0, 0, 0], 8);
  const start = Buffer.from('89504e470d0a1a0a', 'hex');
  return Buffer.concat([start, chunk('IHDR', header), chunk('IDAT', data), chunk('IEND', Buffer.alloc(0))]);
};

const gif = (frames: number, side: number): Buffer => {
  const size = Buffer.from([side % 256, side >> 8, side % 256, side >> 8]);
  const screen = Buffer.concat([Buffer.from('GIF89a'), size, Buffer.from([0x80, 0, 0, 0, 0, 0, 255, 255, 255])]);
  const frame = Buffer.concat([Buffer.from([0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0])]);
  return Buffer.concat([screen, ...Array.from({ length: frames }, () => frame), Buffer.from([0x3b])]);
};

const codeOf = async (bytes: Buffer, given = {}): Promise<string> =>
  renderPicture(bytes, options(given)).then(
    ({ mimeType }) => mimeType,
    (error: unknown) => (error instanceof ServiceError ? error.code : String(error)),
  );

test('a picture is cropped, fitted or stretched, and never enlarged', async (t) => {
  const bytes = await picture(400, 200).png().toBuffer();
  const cases = [
    [{ width: 100, height: 100 }, 100, 100],
    [{ width: '100', height: '100', resize: 'contain' }, 100, 50],
    [{ width: 100, height: 150, resize: 'fill' }, 100, 150],
    [{ width: 100 }, 100, 50],
    [{ height: 50 }, 100, 50],
    [{ width: 2500, height: 2500, resize: 'contain' }, 400, 200],
    [{ width: 2500 }, 400, 200],
    [{}, 400, 200],
  ] as const;
  for (const [given, width, height] of cases) {
    const made = await renderPicture(bytes, options(given));
    t.deepEqual([made.width, made.height], [width, height], JSON.stringify(given));
    const found = await sharp(made.bytes).metadata();
    t.deepEqual([found.width, found.height, found.format], [width, height, 'png']);
  }
});

test('a result is never larger than its original, whatever the sides', async (t) => {
  const bytes = await picture(10, 10).png().toBuffer();
  for (const resize of ['cover', 'contain', 'fill']) {
    const { width, height } = await renderPicture(bytes, options({ width: 2500, height: 2400, resize }));
    t.true(width <= 10 && height <= 10, `${resize}: ${width} × ${height}`);
  }
});

test('formats are turned into each other, and origin keeps that of the file', async (t) => {
  for (const from of ['jpeg', 'png', 'webp', 'gif', 'avif'] as const) {
    const bytes = await picture(20, 10).toFormat(from).toBuffer();
    t.is(await codeOf(bytes), `image/${from}`);
    for (const format of ['webp', 'avif', 'jpeg', 'png']) t.is(await codeOf(bytes, { format }), `image/${format}`);
  }
});

test('frames are kept where the format has them', async (t) => {
  const frames = ['red', 'green', 'blue'].map((background) =>
    sharp({ create: { width: 4, height: 4, channels: 3, background } })
      .png()
      .toBuffer(),
  );
  const bytes = await sharp(await Promise.all(frames), { join: { animated: true } })
    .gif()
    .toBuffer();
  const made = await renderPicture(bytes, options({ format: 'webp' }));
  t.is((await sharp(made.bytes).metadata()).pages, 3);
  t.deepEqual([made.width, made.height], [4, 4]);
  t.is((await sharp((await renderPicture(bytes, options({ format: 'png' }))).bytes).metadata()).pages, undefined);
});

test('a picture is turned upright, and its place and camera are not passed on', async (t) => {
  const exif = { IFD0: { Copyright: 'somebody' }, IFD3: { GPSLatitude: '51/1 30/1 0/1' } };
  const bytes = await picture(40, 20).jpeg().withMetadata({ orientation: 6 }).withExifMerge(exif).toBuffer();
  t.truthy((await sharp(bytes).metadata()).exif);
  const made = await renderPicture(bytes, options());
  t.deepEqual([made.width, made.height], [20, 40]);
  t.is((await sharp(made.bytes).metadata()).exif, undefined);
});

test('a picture of too many pixels is refused by its header, before anything is decoded', async (t) => {
  t.is(await codeOf(png(30_000, 30_000, Buffer.from('no data at all'))), 'payload_too_large');
  t.is(await codeOf(png(2_000_000_000, 2_000_000_000, Buffer.from('x'))), 'unsupported_media_type');
  t.is(await codeOf(png(5001, 5000, deflateSync(Buffer.alloc(5002 * 5000)))), 'payload_too_large');
  t.is(await codeOf(png(5000, 5000, deflateSync(Buffer.alloc(5001 * 5000))), { width: 10 }), 'image/png');
});

test('frames are bounded in number, and count together', async (t) => {
  t.is(await codeOf(gif(50, 1)), 'image/gif');
  t.is(await codeOf(gif(51, 1)), 'payload_too_large');
  t.is(await codeOf(gif(5000, 1)), 'payload_too_large');
  t.is(await codeOf(gif(50, 800)), 'payload_too_large');
  t.is(await codeOf(gif(50, 800), { format: 'png' }), 'payload_too_large');
});

test('SVG, PDF, TIFF and files that are no pictures are not opened', async (t) => {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><image href="file:///etc/passwd"/></svg>';
  const tiff = await picture(2, 2).tiff().toBuffer();
  for (const bytes of [Buffer.from(svg), Buffer.from(`<?xml version="1.0"?>${svg}`), Buffer.from('%PDF-1.4'), tiff]) {
    t.is(await codeOf(bytes), 'unsupported_media_type');
  }
  for (const bytes of [Buffer.alloc(0), Buffer.from('hello'), Buffer.from('89504e470d0a1a0a', 'hex')]) {
    t.is(await codeOf(bytes), 'unsupported_media_type');
  }
  const whole = await picture(300, 300).jpeg().toBuffer();
  t.is(await codeOf(whole.subarray(0, whole.length / 2)), 'unsupported_media_type');
  t.is(await codeOf(Buffer.alloc(maxPictureBytes + 1)), 'payload_too_large');
});

test('options out of their range are named', (t) => {
  const wrong = [
    ['width', 0],
    ['width', 2501],
    ['width', '1e3'],
    ['height', -1],
    ['height', ['1', '2']],
    ['quality', 19],
    ['quality', 101],
    ['resize', 'inside'],
    ['format', 'svg'],
  ] as const;
  for (const [name, value] of wrong) {
    const error = t.throws(() => options({ [name]: value }), { instanceOf: ServiceError });
    t.is(error?.code, 'validation_failed');
    t.like(error?.details, [{ path: name }]);
  }
  t.deepEqual(options({ token: 'x' }), { resize: 'cover', quality: 80, format: 'origin' });
  t.is(
    pictureOptionsText(options({ quality: '80', height: '010', width: 5 })),
    'width=5,height=10,resize=cover,quality=80,format=origin',
  );
});

test('sharp is loaded with the first picture only', (t) => {
  const text = readFileSync(path.join(import.meta.dirname, '../../domain/storage/pictures/render.ts'), 'utf8');
  t.notRegex(text, /^import (?!type ).*from 'sharp'/m);
});
