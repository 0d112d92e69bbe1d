import { Failure, exits, failed } from './errors.ts';
import { type Request, type Target, send } from './http.ts';

/** A server-sent event. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
  readonly id: string | undefined;
}

interface Pending {
  event: string;
  data: string[];
  id: string | undefined;
}

/** Events out of the pieces of a stream, however it is cut. */
export const createEventReader = (): ((piece: string) => ServerEvent[]) => {
  let rest = '';
  let pending: Pending = { event: 'message', data: [], id: undefined };
  const take = (line: string): ServerEvent | undefined => {
    if (line === '') {
      const { event, data, id } = pending;
      pending = { event: 'message', data: [], id };
      return data.length === 0 ? undefined : { event, data: data.join('\n'), id };
    }
    const [, field = '', value = ''] = /^([^:]*):? ?([\s\S]*)$/.exec(line) ?? [];
    if (field === 'event') pending.event = value;
    else if (field === 'data') pending.data.push(value);
    else if (field === 'id') pending.id = value;
    return undefined;
  };
  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    return lines.flatMap((line) => take(line) ?? []);
  };
};

const firstDelayMs = 500;
const maxDelayMs = 15_000;

const wait = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });

export interface Follow {
  /** A way to the platform, asked for at each connection: a token lasts an hour. */
  readonly target: () => Promise<Target>;
  readonly path: string;
  /** Left out: GET. */
  readonly request?: () => Pick<Request, 'method' | 'body'>;
  readonly on: (event: ServerEvent) => void;
  readonly onReconnect: () => void;
}

const readOnce = async (
  { target, path, on, request }: Follow,
  lastId: { value: string | undefined },
): Promise<boolean> => {
  const way = await target();
  const response = await send(way, path, {
    ...request?.(),
    timeoutMs: null,
    headers: { accept: 'text/event-stream', ...(lastId.value !== undefined && { 'last-event-id': lastId.value }) },
  });
  if (!(response.headers.get('content-type') ?? '').startsWith('text/event-stream') || response.body === null) {
    throw failed('no_platform', `${way.url} did not answer with a stream.`);
  }
  const read = createEventReader();
  let isAny = false;
  const decoder = new TextDecoder();
  const pass = (event: ServerEvent): void => {
    if (event.id !== undefined) lastId.value = event.id;
    on(event);
  };
  try {
    for await (const bytes of response.body) {
      isAny = true;
      read(decoder.decode(bytes as Uint8Array, { stream: true })).forEach(pass);
    }
  } catch (error) {
    // A connection that breaks is taken up again.
    if (way.signal.aborted || error instanceof Failure) throw error;
  }
  return isAny;
};

const isPassing = (error: unknown): boolean => error instanceof Failure && error.body.code === 'unreachable';

/** Follows a stream until Ctrl-C: where it breaks off it goes on after the last event that came. */
export const followEvents = async (follow: Follow): Promise<void> => {
  const lastId: { value: string | undefined } = { value: undefined };
  const { signal } = await follow.target();
  let delayMs = firstDelayMs;
  let isConnected = false;
  while (!signal.aborted) {
    try {
      isConnected = (await readOnce(follow, lastId)) || isConnected;
      delayMs = firstDelayMs;
    } catch (error) {
      if (signal.aborted) break;
      // An address that never answered is a mistake, one that did is away for a while.
      if (!isConnected || !isPassing(error)) throw error;
      follow.onReconnect();
    }
    await wait(delayMs, signal);
    delayMs = Math.min(maxDelayMs, delayMs * 2);
  }
  throw new Failure(exits.interrupted, 'interrupted', 'Interrupted.');
};
