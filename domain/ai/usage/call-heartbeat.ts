import type { ControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { deleteHeartbeat, touchHeartbeat } from './call-store.ts';

const touchEveryMs = 5000;

/** Says for as long as this process has calls open that it lives; a process without calls does nothing. */
export interface CallHeartbeat {
  readonly id: () => string;
  /** Whether the next statement has to say so. */
  readonly isDue: () => boolean;
  readonly touched: (id: string) => void;
  readonly callOpened: () => void;
  readonly callEnded: () => void;
  /** Lets go of all calls that are open: they are given up unless their ends are recorded after all. */
  readonly replace: () => void;
  readonly close: () => Promise<void>;
}

export const createCallHeartbeat = ({ db, log }: { readonly db: ControlDb; readonly log: Log }): CallHeartbeat => {
  let id = newId();
  let touchedAt = -Infinity;
  let open = 0;
  let timer: NodeJS.Timeout | undefined;

  const isDue = (): boolean => performance.now() - touchedAt >= touchEveryMs;
  const touched = (which: string): void => {
    if (which === id) touchedAt = performance.now();
  };
  const stop = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const touch = async (): Promise<void> => {
    if (!isDue()) return;
    const which = id;
    try {
      await touchHeartbeat(db, which);
      touched(which);
    } catch (error) {
      log.warn({ err: error }, 'the heartbeat of AI calls failed');
    }
  };
  return {
    id: () => id,
    isDue,
    touched,
    callOpened: () => {
      open += 1;
      timer ??= setInterval(() => void touch(), touchEveryMs / 2).unref();
    },
    callEnded: () => {
      open -= 1;
      if (open === 0) stop();
    },
    replace: () => {
      id = newId();
      touchedAt = -Infinity;
    },
    close: async () => {
      stop();
      if (touchedAt === -Infinity) return;
      await deleteHeartbeat(db, id).catch((error: unknown) =>
        log.debug({ err: error }, 'the heartbeat of the AI calls could not be deleted now; the sweep deletes it'),
      );
    },
  };
};
