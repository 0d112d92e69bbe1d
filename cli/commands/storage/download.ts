import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { Failure, failed } from '../../errors.ts';
import { fileFailure, randomDigits } from '../../files.ts';
import { send } from '../../http.ts';
import type { Progress } from '../../output.ts';
import type { Files } from './access.ts';
import { type Place, urlPath } from './place.ts';

type Write = (bytes: Uint8Array) => Promise<void>;

interface Received {
  bytes: number;
  etag: string | undefined;
}

/** One request, from where the last one broke off. @throws {Failure} `changed` when the object is another one by then */
const readOn = async (files: Files, place: Place, received: Received, write: Write): Promise<void> => {
  const isRest = received.bytes > 0 && received.etag !== undefined;
  const response = await send(files, `${files.root}/object/authenticated/${urlPath(place)}`, {
    headers: {
      ...files.headers,
      accept: '*/*',
      ...(isRest && { range: `bytes=${received.bytes}-`, 'if-range': received.etag ?? '' }),
    },
    timeoutMs: null,
  });
  if (isRest && response.status !== 206)
    throw failed('changed', 'The object was replaced while it was read. Try again.');
  received.etag = response.headers.get('etag') ?? undefined;
  try {
    for await (const bytes of response.body ?? []) {
      await write(bytes as Uint8Array);
      received.bytes += (bytes as Uint8Array).length;
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw failed('unreachable', `${files.url} broke the connection off.`);
  }
};

const maxTries = 6;
const firstDelayMs = 500;

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Reads an object, also over connections that break. */
export const readObject = async (files: Files, place: Place, write: Write, progress: Progress): Promise<void> => {
  const received: Received = { bytes: 0, etag: undefined };
  const counting: Write = async (bytes) => {
    await write(bytes);
    progress.add(bytes.length);
  };
  for (let tries = 1; ; tries += 1) {
    try {
      return await readOn(files, place, received, counting);
    } catch (error) {
      const isPassing = error instanceof Failure && error.body.code === 'unreachable' && !files.signal.aborted;
      if (!isPassing || tries >= maxTries) throw error;
      await wait(firstDelayMs * 2 ** tries);
    }
  }
};

const writerOf =
  (handle: FileHandle, file: string): Write =>
  async (bytes) => {
    try {
      await handle.writeFile(bytes);
    } catch (error) {
      throw fileFailure('written', file, error);
    }
  };

/** Writes an object to a file: the whole of it, or nothing. */
export const downloadFile = async (files: Files, place: Place, file: string, progress: Progress): Promise<void> => {
  const part = `${file}.${randomDigits()}.part`;
  const handle = await mkdir(path.dirname(file), { recursive: true })
    .then(() => open(part, 'wx'))
    .catch((error: unknown) => {
      throw fileFailure('written', file, error);
    });
  try {
    await readObject(files, place, writerOf(handle, file), progress);
    await handle.close();
    await rename(part, file).catch((error: unknown) => {
      throw fileFailure('written', file, error);
    });
  } catch (error) {
    await handle.close().catch(() => undefined);
    await rm(part, { force: true });
    throw error;
  }
};
