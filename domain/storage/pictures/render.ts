/**
 * Transforms pictures, in workers only. Everything that a picture of a stranger can cost is bounded before its pixels
 * are decoded: the bytes of the file, the pixels of all frames and the number of frames, by what its header says; then
 * sharp bounds the pixels once more, and the time. Formats that are programs or have others within them (SVG, PDF,
 * ImageMagick's, TIFF) are not even opened: SVG can name other files and addresses, and takes unbounded time to draw.
 */
import type sharpModule from 'sharp';
import type { Metadata, Sharp } from 'sharp';
import { ServiceError } from '#lib/errors.ts';
import type { PictureOptions } from './options.ts';

/** The original file may have so many bytes: it is held in memory. */
export const maxPictureBytes = 32 * 2 ** 20;
/** All frames together may have so many: 100 MB decoded. */
const maxPicturePixels = 25_000_000;
const maxPictureFrames = 50;

const maxSeconds = 20;

export interface RenderedPicture {
  readonly bytes: Buffer;
  readonly mimeType: string;
  readonly width: number;
  readonly height: number;
}

const formats = ['jpeg', 'png', 'webp', 'gif', 'avif'] as const;
type Format = (typeof formats)[number];

/** sharp is loaded by the first picture: its library takes 20 MB and threads, and no API process has pictures to render. */
const loadSharp = async (): Promise<typeof sharpModule> => {
  const { default: sharp } = await import('sharp');
  // One picture keeps one core busy, and nothing is kept after it: how many there are at a time is the pool's to say.
  sharp.concurrency(1);
  sharp.cache(false);
  sharp.block({ operation: ['VipsForeignLoad'] });
  sharp.unblock({
    operation: [
      'VipsForeignLoadJpegBuffer',
      'VipsForeignLoadPngBuffer',
      'VipsForeignLoadWebpBuffer',
      'VipsForeignLoadNsgifBuffer',
      'VipsForeignLoadHeifBuffer',
    ],
  });
  return sharp;
};

let loaded: Promise<typeof sharpModule> | undefined;

/** Once: what is blocked is blocked for the whole process, also for pictures that are being read at that moment. */
const openSharp = (): Promise<typeof sharpModule> => (loaded ??= loadSharp());

const unreadable = (cause?: unknown): ServiceError =>
  new ServiceError('unsupported_media_type', 'The file is no picture that can be transformed.', {
    hint: 'JPEG, PNG, WebP, GIF and AVIF can be. SVG is refused, since it can hold programs and name other files.',
    cause,
  });

const tooLarge = (bound: string): ServiceError =>
  new ServiceError('payload_too_large', `The picture is too large to be transformed: ${bound}.`);

const tooManyPixels = () => tooLarge(`it may have ${maxPicturePixels / 1e6} megapixels, all frames together`);

const failureOf = (error: unknown): ServiceError => {
  if (error instanceof ServiceError) return error;
  const message = error instanceof Error ? error.message : '';
  if (/pixel limit/i.test(message)) return tooManyPixels();
  if (message.startsWith('timeout')) return tooLarge(`it took more than ${maxSeconds} s`);
  return unreadable(error);
};

const formatOf = ({ format, compression }: Metadata): Format => {
  const name = format === 'heif' && compression === 'av1' ? 'avif' : format;
  const known = formats.find((known) => known === name);
  if (known === undefined) throw unreadable();
  return known;
};

/** Refuses by the header what is too large to be decoded. @returns the format of the file */
const requireBounds = (header: Metadata): Format => {
  const format = formatOf(header);
  const frames = header.pages ?? 1;
  if (frames > maxPictureFrames) throw tooLarge(`it may have ${maxPictureFrames} frames`);
  if (header.width * (header.pageHeight ?? header.height) * frames > maxPicturePixels) throw tooManyPixels();
  return format;
};

const encodeAs = (picture: Sharp, format: Format, quality: number): Sharp => {
  switch (format) {
    case 'jpeg': {
      return picture.jpeg({ quality });
    }
    case 'png': {
      return picture.png();
    }
    case 'webp': {
      return picture.webp({ quality, effort: 3 });
    }
    case 'avif': {
      // At the default effort a picture of 6 megapixels takes 3 times as long, for files a few per cent smaller.
      return picture.avif({ quality, effort: 2 });
    }
    case 'gif': {
      return picture.gif();
    }
  }
};

const fits = { cover: 'cover', contain: 'inside', fill: 'fill' } as const;

const transform = async (bytes: Buffer, options: PictureOptions): Promise<RenderedPicture> => {
  const sharp = await openSharp();
  const input = { limitInputPixels: maxPicturePixels, sequentialRead: true, failOn: 'error' } as const;
  const format = requireBounds(await sharp(bytes, { ...input, limitInputPixels: false, pages: 1 }).metadata());
  const wanted = options.format === 'origin' ? format : options.format;
  const animated = (format === 'gif' || format === 'webp') && (wanted === 'gif' || wanted === 'webp');
  const sides = { ...(options.width && { width: options.width }), ...(options.height && { height: options.height }) };
  const picture = sharp(bytes, { ...input, animated })
    .autoOrient()
    .resize({ ...sides, fit: fits[options.resize], withoutEnlargement: true })
    .timeout({ seconds: maxSeconds });
  const { data, info } = await encodeAs(picture, wanted, options.quality).toBuffer({ resolveWithObject: true });
  return { bytes: data, mimeType: `image/${wanted}`, width: info.width, height: info.pageHeight ?? info.height };
};

/**
 * Transforms a picture. Nothing of its metadata is kept but the colours that it means.
 * @param bytes the whole file, at most `maxPictureBytes`
 * @throws {ServiceError} unsupported_media_type for what is no picture; payload_too_large for one beyond the bounds
 */
export const renderPicture = async (bytes: Buffer, options: PictureOptions): Promise<RenderedPicture> => {
  if (bytes.length > maxPictureBytes) throw tooLarge(`its file may have ${maxPictureBytes / 2 ** 20} MB`);
  try {
    return await transform(bytes, options);
  } catch (error) {
    throw failureOf(error);
  }
};
