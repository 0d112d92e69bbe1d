import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { credentialsFile } from '../../credentials.ts';
import { Failure, failed } from '../../errors.ts';
import { readJsonFile, writeWhole } from '../../files.ts';
import { send } from '../../http.ts';
import type { Progress } from '../../output.ts';
import type { Files } from './access.ts';
import { type Place, mediaTypeOf, urlPath } from './place.ts';

/** A file of this machine on its way to a place. */
export interface Upload {
  readonly file: string;
  readonly size: number;
  readonly modifiedMs: number;
  readonly place: Place;
}

/** Smaller ones are one request; a resumable upload takes two more. */
const resumableFrom = 6_000_000;

const uploadWhole = async (files: Files, { file, place, size }: Upload, progress: Progress): Promise<void> => {
  await send(files, `${files.root}/object/${urlPath(place)}`, {
    method: 'POST',
    raw: await readFile(file),
    isIdempotent: true,
    headers: { ...files.headers, 'x-upsert': 'true', 'content-type': mediaTypeOf(place.name) },
    timeoutMs: null,
  });
  progress.add(size);
};

/** Where the address of an upload that was cut off is kept, so that the same command goes on with it. */
const stateFile = (env: Readonly<Record<string, string | undefined>>, files: Files, upload: Upload): string => {
  const { file, size, modifiedMs, place } = upload;
  const name = JSON.stringify([files.url, files.root, place, path.resolve(file), size, modifiedMs]);
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 32);
  return path.join(path.dirname(credentialsFile(env)), 'uploads', `${digest}.json`);
};

const tus = { 'tus-resumable': '1.0.0' } as const;

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** @returns the path of the new upload on the platform */
const begin = async (files: Files, { place, size }: Upload): Promise<string> => {
  const metadata = { bucketName: place.bucket, objectName: place.name, contentType: mediaTypeOf(place.name) };
  const response = await send(files, `${files.root}/upload/resumable`, {
    method: 'POST',
    headers: {
      ...files.headers,
      ...tus,
      'x-upsert': 'true',
      'upload-length': String(size),
      'upload-metadata': Object.entries(metadata)
        .map(([name, value]) => `${name} ${base64(value)}`)
        .join(','),
    },
  });
  const location = response.headers.get('location') ?? '';
  const id = /\/upload\/resumable\/([^/?#]+)$/.exec(location)?.[1];
  if (id === undefined) throw failed('no_platform', `${files.url} did not say where the upload goes on.`);
  // Always below the address that was named: a key goes nowhere else.
  return `${files.root}/upload/resumable/${id}`;
};

/** How much has arrived; undefined: the upload is not known any more. */
const offsetOf = async (files: Files, where: string): Promise<number | undefined> => {
  const response = await send(files, where, {
    method: 'HEAD',
    headers: { ...files.headers, ...tus },
    accept: [404, 410],
  });
  return response.ok ? Number(response.headers.get('upload-offset')) : undefined;
};

async function* counted(stream: AsyncIterable<Uint8Array>, progress: Progress): AsyncGenerator<Uint8Array> {
  for await (const bytes of stream) {
    progress.add(bytes.length);
    yield bytes;
  }
}

const readBytes = 1024 * 1024;

const sendFrom = async (
  files: Files,
  where: string,
  { file, size }: Upload,
  at: { offset: number; progress: Progress },
) => {
  const stream = createReadStream(file, { start: at.offset, end: size - 1, highWaterMark: readBytes });
  try {
    await send(files, where, {
      method: 'PATCH',
      raw: counted(stream, at.progress),
      headers: {
        ...files.headers,
        ...tus,
        'upload-offset': String(at.offset),
        'content-length': String(size - at.offset),
        'content-type': 'application/offset+octet-stream',
      },
      timeoutMs: null,
    });
  } finally {
    stream.destroy();
  }
};

const maxTries = 6;
const firstDelayMs = 500;

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A connection that breaks is taken up again where the platform stopped receiving. */
const sendAll = async (files: Files, where: string, upload: Upload, progress: Progress): Promise<void> => {
  let passed = 0;
  const counting: Progress = {
    add: (bytes) => {
      passed += bytes;
      progress.add(bytes);
    },
    end: () => undefined,
  };
  for (let tries = 1; ; tries += 1) {
    try {
      const offset = (await offsetOf(files, where)) ?? 0;
      // The bar shows what has arrived.
      progress.add(offset - passed);
      passed = offset;
      if (offset < upload.size) await sendFrom(files, where, upload, { offset, progress: counting });
      return;
    } catch (error) {
      const isPassing = error instanceof Failure && error.body.code === 'unreachable';
      if (!isPassing || tries >= maxTries) throw error;
      await wait(firstDelayMs * 2 ** tries);
    }
  }
};

const uploadResumable = async (
  env: Readonly<Record<string, string | undefined>>,
  files: Files,
  upload: Upload,
  progress: Progress,
): Promise<void> => {
  const state = stateFile(env, files, upload);
  const known = (await readJsonFile(state).catch(() => undefined))?.['path'];
  const goesOn = typeof known === 'string' && (await offsetOf(files, known)) !== undefined;
  const where = goesOn ? known : await begin(files, upload);
  // Where it cannot be kept, the upload can still be made.
  if (!goesOn) await writeWhole(state, JSON.stringify({ path: where }), 0o600).catch(() => undefined);
  await sendAll(files, where, upload, progress);
  await writeWhole(state, '{}', 0o600).catch(() => undefined);
};

/** Uploads a file; what is at its place is replaced once all of it has arrived. */
export const uploadFile = (
  env: Readonly<Record<string, string | undefined>>,
  files: Files,
  upload: Upload,
  progress: Progress,
): Promise<void> =>
  upload.size < resumableFrom ? uploadWhole(files, upload, progress) : uploadResumable(env, files, upload, progress);

/** Uploads what another program writes, whose length nobody knows. */
export const uploadStream = async (
  files: Files,
  place: Place,
  stream: AsyncIterable<Uint8Array>,
  progress: Progress,
): Promise<void> => {
  await send(files, `${files.root}/object/${urlPath(place)}`, {
    method: 'POST',
    raw: counted(stream, progress),
    headers: { ...files.headers, 'x-upsert': 'true', 'content-type': mediaTypeOf(place.name) },
    timeoutMs: null,
  });
};
