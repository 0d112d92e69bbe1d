import { ApiError } from '../../client/api.ts';
import { type Standing, begin, end, sendPiece, standingOf } from './tus.ts';

/*
 * The uploads of this window. They belong to no page: whoever looks at another folder, or at the logs, does not stop
 * them. Several files are on their way at once; each can be paused, goes on by itself after a break, and after a reload
 * when the same file is chosen again.
 */

type UploadState = 'waiting' | 'sending' | 'paused' | 'retrying' | 'done' | 'failed' | 'exists';

export interface Upload {
  readonly id: number;
  readonly projectId: string;
  readonly bucket: string;
  readonly name: string;
  readonly file: File;
  readonly state: UploadState;
  readonly sent: number;
  readonly replaces: boolean;
  readonly error: unknown;
}

const atOnce = 3;
const maxTries = 8;
const firstPauseMs = 500;
const maxPauseMs = 30_000;

let uploads: readonly Upload[] = [];
let lastId = 0;
const listeners = new Set<() => void>();
const running = new Map<number, AbortController>();
const stored = new Set<(upload: Upload) => void>();

/** For `useSyncExternalStore`. */
export const currentUploads = (): readonly Upload[] => uploads;
export const onUploads = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Called for each file that has arrived. */
export const onStored = (listener: (upload: Upload) => void): (() => void) => {
  stored.add(listener);
  return () => stored.delete(listener);
};

const publish = (next: readonly Upload[]): void => {
  uploads = next;
  for (const listener of listeners) listener();
};

const isUnfinished = ({ state }: Upload): boolean => !['done', 'failed', 'exists'].includes(state);

/** The window asks before it is closed while files are on their way. */
const askBefore = (event: BeforeUnloadEvent): void => event.preventDefault();
const guardWindow = (): void => {
  if (uploads.some(isUnfinished)) globalThis.addEventListener('beforeunload', askBefore);
  else globalThis.removeEventListener('beforeunload', askBefore);
};

const change = (id: number, fields: Partial<Upload>): void => {
  publish(uploads.map((upload) => (upload.id === id ? { ...upload, ...fields } : upload)));
  guardWindow();
};

const find = (id: number): Upload | undefined => uploads.find((upload) => upload.id === id);

const collectionOf = ({ projectId }: Upload): string => `/projects/${projectId}/storage/v1/upload/resumable`;

/** The same file for the same place: then a further attempt goes on with what has arrived. */
const keyOf = ({ projectId, bucket, name, file }: Upload): string =>
  `plinth.upload ${JSON.stringify([projectId, bucket, name, file.size, file.lastModified])}`;

/** In a private window nothing may be kept; then an upload only begins anew after a reload. */
const remember = (upload: Upload, at: string | null): void => {
  try {
    if (at === null) localStorage.removeItem(keyOf(upload));
    else localStorage.setItem(keyOf(upload), at);
  } catch {
    // Nothing depends on it.
  }
};

const remembered = (upload: Upload): string | null => {
  try {
    const at = localStorage.getItem(keyOf(upload));
    return at?.startsWith(`${collectionOf(upload)}/`) === true ? at : null;
  } catch {
    return null;
  }
};

const forget = (upload: Upload): void => {
  const at = remembered(upload);
  remember(upload, null);
  if (at !== null) void end(at);
};

const isConflict = (error: unknown): boolean =>
  error instanceof ApiError && error.status === 409 && error.code === 'conflict';

/** Sends the next piece. An earlier request whose answer was lost may have brought more than is known here. */
const sendNext = async (
  standing: Standing,
  file: File,
  signal: AbortSignal,
  onSent: (sent: number) => void,
): Promise<Standing> => {
  try {
    return await sendPiece(standing, file, signal, onSent);
  } catch (error) {
    const now = isConflict(error) ? await standingOf(standing.at, signal) : undefined;
    if (now === undefined || now.offset === standing.offset) throw error;
    return now;
  }
};

/** A bar that moves ten times a second is smooth, and costs a page with thousands of files little. */
const shownEveryMs = 100;

const sendAll = async (upload: Upload, signal: AbortSignal): Promise<void> => {
  const { id, file } = upload;
  let shownAt = 0;
  const onSent = (sent: number): void => {
    if (sent < file.size && performance.now() - shownAt < shownEveryMs) return;
    shownAt = performance.now();
    if (!signal.aborted) change(id, { sent: Math.min(sent, file.size), state: 'sending' });
  };
  const known = remembered(upload);
  let standing: Standing | undefined = known === null ? undefined : await standingOf(known, signal);
  if (standing === undefined) {
    standing = await begin({ ...upload, collection: collectionOf(upload) }, signal, onSent);
    remember(upload, standing.at);
  }
  onSent(standing.offset);
  while (standing.offset < file.size) {
    standing = await sendNext(standing, file, signal, onSent);
    // Not by way of onSent: a fast piece falls between two of its reports, and a pause says what has arrived.
    if (!signal.aborted) change(id, { sent: standing.offset });
  }
  remember(upload, null);
};

/** Whether another attempt may end otherwise: the network, an overloaded server, an upload that is locked still. */
const isPassing = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 0 || error.status >= 500 || [408, 423, 429].includes(error.status));

const pause = (tries: number, signal: AbortSignal): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, Math.min(maxPauseMs, firstPauseMs * 2 ** tries));
  const wake = (): void => resolve();
  signal.addEventListener('abort', wake);
  // A network that is back need not be waited for.
  globalThis.addEventListener('online', wake);
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', wake);
    globalThis.removeEventListener('online', wake);
  });
};

/** An attempt that brought bytes begins the count of attempts anew: a weak network is not a refusal. */
const sendWithRetries = async (id: number, signal: AbortSignal): Promise<void> => {
  let tries = 0;
  let best = 0;
  for (;;) {
    const upload = find(id);
    if (upload === undefined) return;
    try {
      await sendAll(upload, signal);
      return;
    } catch (error) {
      if (signal.aborted || !isPassing(error)) throw error;
      const sent = find(id)?.sent ?? 0;
      tries = sent > best ? 0 : tries + 1;
      best = Math.max(best, sent);
      if (tries >= maxTries) throw error;
      change(id, { state: 'retrying', error });
      await pause(tries, signal);
      if (signal.aborted) throw signal.reason;
    }
  }
};

const run = async (id: number): Promise<void> => {
  const controller = new AbortController();
  running.set(id, controller);
  change(id, { state: 'sending', error: null });
  try {
    await sendWithRetries(id, controller.signal);
    const upload = find(id);
    if (upload === undefined) return;
    change(id, { state: 'done', sent: upload.file.size, error: null });
    for (const listener of stored) listener(upload);
  } catch (error) {
    if (!controller.signal.aborted) change(id, { state: isConflict(error) ? 'exists' : 'failed', error });
  } finally {
    // One that was paused may have gone on already.
    if (running.get(id) === controller) running.delete(id);
    startWaiting();
  }
};

const startWaiting = (): void => {
  for (const { id } of uploads.filter(({ state }) => state === 'waiting').slice(0, atOnce - running.size)) void run(id);
};

export interface NewUpload {
  readonly name: string;
  readonly file: File;
}

export const addUploads = (
  { projectId, bucket }: Pick<Upload, 'projectId' | 'bucket'>,
  files: readonly NewUpload[],
): void => {
  const fresh = files.map(({ name, file }): Upload => {
    lastId += 1;
    return { id: lastId, projectId, bucket, name, file, state: 'waiting', sent: 0, replaces: false, error: null };
  });
  publish([...uploads, ...fresh]);
  guardWindow();
  startWaiting();
};

export const pauseUpload = (id: number): void => {
  change(id, { state: 'paused' });
  running.get(id)?.abort(new Error('paused'));
};

/** Goes on with one that is paused or has failed. @param replaces the file of its name is to be replaced */
export const resumeUpload = (id: number, replaces = false): void => {
  const upload = find(id);
  if (upload === undefined) return;
  // It was begun as one that replaces nothing.
  if (replaces) forget(upload);
  change(id, { state: 'waiting', error: null, replaces: replaces || upload.replaces });
  startWaiting();
};

/** Takes it off the list; what has arrived of it is deleted. */
export const dropUpload = (id: number): void => {
  const upload = find(id);
  if (upload === undefined) return;
  publish(uploads.filter((other) => other.id !== id));
  guardWindow();
  running.get(id)?.abort(new Error('dropped'));
  forget(upload);
};

/** Takes those off the list that have arrived. */
export const clearDone = (): void => publish(uploads.filter(({ state }) => state !== 'done'));
