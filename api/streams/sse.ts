import { PassThrough, type Readable } from 'node:stream';

/** Server-sent events: one answer that goes on until its end. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

/** Not kept by anybody on the way, and handed on at once. */
export const eventStreamHeaders = { 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' } as const;

const keepAliveMs = 15_000;
const pollIntervalMs = 1000;
// Its connection stays as it is meanwhile, so a reader that is that far behind does not read.
const maxUnread = 256 * 1024;

export interface EventStreamOptions {
  /** Called each second; false ends the stream: the listener has lost its access, or the process is stopping. */
  readonly goesOn: () => boolean;
  /** After that the client reconnects. */
  readonly maxMs: number;
  /** Runs once, whatever ends the stream. */
  readonly onClose: () => void;
}

export interface EventStream {
  readonly body: Readable;
  /** @param data goes out as JSON; who does not read is dropped */
  readonly send: (event: string, data: unknown) => void;
  /** The same for what was written as text before, for many readers. */
  readonly sendText: (text: string) => void;
  readonly end: () => void;
}

/** An event as it goes over the wire. */
export const eventText = (event: string, data: unknown): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

export const openEventStream = ({ goesOn, maxMs, onClose }: EventStreamOptions): EventStream => {
  const body = new PassThrough();
  const ends = performance.now() + maxMs;
  let quietSince = performance.now();

  const write = (text: string): void => {
    if (body.writableEnded || body.destroyed) return;
    // Before the write: one event may be long, and it cannot have been read yet.
    if (body.writableLength + body.readableLength > maxUnread) return void body.destroy();
    quietSince = performance.now();
    body.write(text);
  };
  const check = (): void => {
    const now = performance.now();
    if (!goesOn() || now > ends) body.end();
    else if (now - quietSince >= keepAliveMs) write(': keep-alive\n\n');
  };
  const timer = setInterval(check, pollIntervalMs).unref();
  body.once('close', () => {
    clearInterval(timer);
    onClose();
  });

  return {
    body,
    send: (event, data) => write(eventText(event, data)),
    sendText: write,
    end: () => void body.end(),
  };
};
