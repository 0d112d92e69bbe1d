import { PassThrough, type Readable } from 'node:stream';

/** Server-sent events of several writers, who each go at the pace of the one reader. */
export interface PacedEvents {
  readonly body: Readable;
  /**
   * Resolves when more may come.
   * @param data goes out as JSON
   * @returns false: the reader is gone
   */
  readonly send: (data: unknown) => Promise<boolean>;
  readonly end: () => void;
}

const usualKeepAliveMs = 15_000;
/** In bytes: what may wait for a reader that is slower than the writers. */
const maxWaiting = 16 * 1024;

/** @param keepAliveMs how long it may be quiet */
export const openPacedEvents = (keepAliveMs = usualKeepAliveMs): PacedEvents => {
  const body = new PassThrough({ highWaterMark: maxWaiting });
  let draining: Promise<void> | undefined;

  // To a reader that has read all, or nothing would ever stop.
  const sendKeepAlive = (): void => {
    if (body.writableLength + body.readableLength === 0 && !body.writableEnded) body.write(': keep-alive\n\n');
  };
  const timer = setInterval(sendKeepAlive, keepAliveMs).unref();
  body.once('close', () => clearInterval(timer));

  /** One for all writers that wait. */
  const drained = (): Promise<void> => {
    draining ??= new Promise<void>((resolve) => {
      const go = (): void => {
        body.off('drain', go).off('close', go);
        draining = undefined;
        resolve();
      };
      body.on('drain', go).on('close', go);
    });
    return draining;
  };

  return {
    body,
    send: async (data) => {
      if (body.destroyed || body.writableEnded) return false;
      timer.refresh();
      if (!body.write(`data: ${JSON.stringify(data)}\n\n`)) await drained();
      return !body.destroyed;
    },
    end: () => void body.end(),
  };
};
