import type { SmtpConnection } from './smtp-connection.ts';

export interface PoolOptions {
  readonly connect: () => Promise<SmtpConnection>;
  /** Connections at a time, not counting those that only wait for a slow server's answer. */
  readonly connections: number;
  readonly mailsPerConnection: number;
  readonly idleMs: number;
}

/** A connection that is lent out. */
export interface Lent {
  readonly connection: SmtpConnection;
  /** Whether it has sent a mail before: the server may have ended it meanwhile. */
  readonly isReused: boolean;
  /** Lets another mail have a connection already. */
  readonly yieldPlace: () => void;
  /** Gives it back. */
  readonly release: () => void;
}

export interface SmtpPool {
  /**
   * @param signal gives up waiting
   * @throws the reason of `signal`, or whatever kept the connection from being made
   */
  readonly take: (signal: AbortSignal) => Promise<Lent>;
  /** Ends what is idle, now and later. */
  readonly close: () => void;
}

interface Idle {
  readonly connection: SmtpConnection;
  readonly mails: number;
  readonly timer: NodeJS.Timeout;
}

/** Permission for one mail to use a connection. */
interface Place {
  readonly isHeld: () => boolean;
  readonly giveBack: () => void;
}

/** Places for mails under way, in the order in which they are asked for. */
const createPlaces = (count: number) => {
  let free = count;
  const waiting = new Set<() => void>();
  const pass = (): void => {
    const [next] = waiting;
    if (next === undefined) free += 1;
    else next();
  };
  const placeOf = (): Place => {
    let isHeld = true;
    return {
      isHeld: () => isHeld,
      giveBack: () => {
        if (isHeld) pass();
        isHeld = false;
      },
    };
  };
  const wait = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const leave = (): void => {
        waiting.delete(go);
        reject(signal.reason as Error);
      };
      const go = (): void => {
        waiting.delete(go);
        signal.removeEventListener('abort', leave);
        resolve();
      };
      waiting.add(go);
      signal.addEventListener('abort', leave, { once: true });
    });
  return {
    take: async (signal: AbortSignal): Promise<Place> => {
      signal.throwIfAborted();
      if (free > 0) free -= 1;
      else await wait(signal);
      return placeOf();
    },
    used: () => count - free,
  };
};

/** Connections that wait for a mail; each ends after a while. */
const createIdle = (idleMs: number) => {
  const idle = new Set<Idle>();
  const remove = (one: Idle): void => {
    clearTimeout(one.timer);
    idle.delete(one);
  };
  return {
    count: () => idle.size,
    take: (): Idle | undefined => {
      for (const one of idle) {
        remove(one);
        if (one.connection.isOpen()) return one;
      }
      return undefined;
    },
    add: (connection: SmtpConnection, mails: number): void => {
      const end = (): void => {
        remove(one);
        connection.close();
      };
      const one: Idle = { connection, mails, timer: setTimeout(end, idleMs).unref() };
      idle.add(one);
    },
    clear: (): void => {
      for (const one of idle) {
        remove(one);
        one.connection.close();
      }
    },
  };
};

/** Connections to one server, kept for the next mail. */
export const createSmtpPool = ({ connect, connections, mailsPerConnection, idleMs }: PoolOptions): SmtpPool => {
  const places = createPlaces(connections);
  const idle = createIdle(idleMs);
  let isClosed = false;

  const keep = (connection: SmtpConnection, mails: number, place: Place): void => {
    const others = places.used() - (place.isHeld() ? 1 : 0) + idle.count();
    if (isClosed || others >= connections || mails >= mailsPerConnection || !connection.isOpen()) connection.close();
    else idle.add(connection, mails);
  };

  const lend = (connection: SmtpConnection, mails: number, place: Place): Lent => ({
    connection,
    isReused: mails > 0,
    yieldPlace: place.giveBack,
    release: () => {
      // In this order, so that whoever has waited for the place finds the connection.
      keep(connection, mails + 1, place);
      place.giveBack();
    },
  });

  return {
    take: async (signal) => {
      const place = await places.take(signal);
      try {
        const idleConnection = idle.take();
        const connection = idleConnection?.connection ?? (await connect());
        if (signal.aborted) connection.close();
        signal.throwIfAborted();
        return lend(connection, idleConnection?.mails ?? 0, place);
      } catch (error) {
        place.giveBack();
        throw error;
      }
    },
    close: () => {
      isClosed = true;
      idle.clear();
    },
  };
};
