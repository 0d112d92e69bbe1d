import type { IncomingMessage } from 'node:http';
import type { Config } from '#lib/config.ts';
import { ServiceError } from '#lib/errors.ts';

const windowMs = 5000;

export interface Arrival {
  /** Aborted, with the caller's error as its reason, when too little arrives while it is waited for. */
  readonly signal: AbortSignal;
  readonly stop: () => void;
}

/**
 * Watches the rate of an upload, which may take hours and has no time-out as a whole. Time in which nobody reads counts
 * for nothing: then it is the store that is slow.
 */
export const watchUpload = (
  req: IncomingMessage,
  { PLINTH_BODY_MIN_RATE: minRate }: Pick<Config, 'PLINTH_BODY_MIN_RATE'>,
): Arrival => {
  const controller = new AbortController();
  let before = req.socket.bytesRead;
  const timer = setInterval(() => {
    const arrived = req.socket.bytesRead;
    const isWaitedFor = !req.complete && req.readableLength === 0;
    if (isWaitedFor && arrived - before < (minRate * windowMs) / 1000) {
      controller.abort(
        new ServiceError('request_timeout', `The file arrived at less than ${minRate} bytes per second.`, {
          headers: { Connection: 'close' },
          hint: 'Resumable uploads (tus) go on where they broke off.',
        }),
      );
    }
    before = arrived;
  }, windowMs);
  return { signal: controller.signal, stop: () => clearInterval(timer) };
};
