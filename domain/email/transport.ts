import type { Readable } from 'node:stream';
import { createTransport } from 'nodemailer';
import { MailFailure, explainMailFailure, wordsOf } from './failure.ts';
import {
  type Outgoing,
  type SmtpConnection,
  type SmtpRoute,
  type SmtpServer,
  type SmtpTimeouts,
  connectSmtp,
  usualTimeouts,
} from './smtp.ts';

interface PoolOptions {
  readonly connect: () => Promise<SmtpConnection>;
  /** Connections at a time, not counting those that only wait for a slow server's answer. */
  readonly connections: number;
  readonly mailsPerConnection: number;
  readonly idleMs: number;
}

/** A connection that is lent out. */
interface Lent {
  readonly connection: SmtpConnection;
  /** Whether it has sent a mail before: the server may have ended it meanwhile. */
  readonly isReused: boolean;
  /** Lets another mail have a connection already. */
  readonly yieldPlace: () => void;
  /** Gives it back. */
  readonly release: () => void;
}

interface SmtpPool {
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
const createSmtpPool = ({ connect, connections, mailsPerConnection, idleMs }: PoolOptions): SmtpPool => {
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
      // In this order, so that a caller that waits for the place finds the connection.
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

/** Signs mail, so that receivers can see that the domain's owner sent it (RFC 6376). */
export interface Dkim {
  readonly domain: string;
  readonly selector: string;
  /** PEM. */
  readonly privateKey: string;
}

/** One mail to one recipient. */
export interface Mail {
  /** Without the angle brackets. The same on each attempt: receivers may recognize a repetition by it. */
  readonly messageId: string;
  readonly from: { readonly name: string; readonly address: string };
  readonly to: string;
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  /** Such as List-Unsubscribe; they go out as they are given. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly dkim?: Dkim | null | undefined;
}

/** Mail through one server, over connections that are kept for the next mail. */
export interface Transport {
  /**
   * Resolves with the server's words once it took the mail.
   * @param signal gives the mail up
   * @param onSlow called when the server has the whole mail and takes its time to answer: nothing but the answer is
   *   missing
   * @throws {MailFailure} `unknown` when the server had the whole mail and did not answer
   */
  readonly send: (mail: Mail, signal: AbortSignal, onSlow?: () => void) => Promise<string>;
  /** Mails that are being sent are finished; then the connections end. */
  readonly close: () => void;
}

export interface TransportOptions extends SmtpServer, SmtpRoute {
  /** At a time; 4 unless given. Mails that wait for a slow answer come on top. */
  readonly connections?: number;
  readonly timeouts?: Partial<SmtpTimeouts> | undefined;
  /** Ends every connection at once; what was under way then is never settled. */
  readonly ended?: AbortSignal | undefined;
}

const mailsPerConnection = 200;
/** A kept connection that the server had ended is replaced so often before a mail fails. */
const maxRetakes = 2;

/** Puts mails together and signs them; sends nothing. */
const composer = createTransport<Outgoing>({
  name: 'composer',
  version: '1',
  send: (mail, done) => {
    done(null, { envelope: mail.message.getEnvelope(), message: mail.message.createReadStream() });
  },
});

const compose = ({ messageId, dkim, to, headers, ...mail }: Mail): Promise<Outgoing> =>
  composer.sendMail({
    ...mail,
    to: { name: '', address: to },
    messageId: `<${messageId}>`,
    ...(headers && { headers: { ...headers } }),
    ...(dkim && { dkim: { domainName: dkim.domain, keySelector: dkim.selector, privateKey: dkim.privateKey } }),
    // A template must not name files of ours or have us fetch addresses.
    disableFileAccess: true,
    disableUrlAccess: true,
  });

/** How far a mail has come. */
interface Progress {
  atDot: boolean;
}

const isUtf8 = (address: string): boolean => /[^\x20-\x7e]/.test(address.slice(0, address.lastIndexOf('@')));

/** @throws {MailFailure} Without SMTPUTF8 a server may refuse such an address, or change it. */
const requireTakable = (lent: Lent, { from, to }: Mail, host: string): void => {
  const address = [from.address, to].find(isUtf8);
  if (address === undefined || lent.connection.takesUtf8) return;
  throw new MailFailure(
    'rejected',
    `${host} does not take addresses with letters beyond ASCII before the @ (it has no SMTPUTF8), and ${address} is one.`,
  );
};

const wasRefused = (error: unknown): boolean =>
  error instanceof Error && ['EENVELOPE', 'EMESSAGE'].includes(String(Reflect.get(error, 'code')));

interface Sending {
  readonly pool: SmtpPool;
  readonly options: TransportOptions;
  readonly timeouts: SmtpTimeouts;
  readonly mail: Mail;
  readonly signal: AbortSignal;
  readonly progress: Progress;
  readonly onSlow: () => void;
}

/** Sends over a lent connection and gives it back in a state in which the next mail can use it. */
const sendOver = async (lent: Lent, outgoing: Outgoing, sending: Sending): Promise<string> => {
  const { timeouts, progress, signal } = sending;
  const { connection, yieldPlace, release } = lent;
  let timer: NodeJS.Timeout | undefined;
  const onDot = (): void => {
    progress.atDot = true;
    timer = setTimeout(() => {
      yieldPlace();
      sending.onSlow();
    }, timeouts.slowMs);
  };
  const end = (): void => connection.close();
  signal.addEventListener('abort', end, { once: true });
  try {
    return await connection.send(outgoing, onDot);
  } catch (error) {
    if (wasRefused(error)) await connection.reset();
    else connection.close();
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    release();
  }
};

const wasRead = (message: Readable): boolean => message.readableDidRead;

const deliver = async (sending: Sending): Promise<string> => {
  const { pool, options, mail, signal } = sending;
  for (let retakes = 0; ; retakes += 1) {
    const outgoing = await compose(mail);
    const lent = await pool.take(signal);
    try {
      requireTakable(lent, mail, options.host);
    } catch (error) {
      lent.release();
      throw error;
    }
    try {
      return await sendOver(lent, outgoing, sending);
    } catch (error) {
      const isStale = lent.isReused && !wasRead(outgoing.message) && !lent.connection.isOpen() && !wasRefused(error);
      if (!isStale || signal.aborted || retakes >= maxRetakes) throw error;
    }
  }
};

/** Rejects as soon as the signal says so, however long the work still takes to notice. */
const unlessAborted = async <T>(signal: AbortSignal, work: Promise<T>): Promise<T> => {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(Object.assign(new Error('given up'), { code: 'ETIMEDOUT' }));
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
    work.catch(() => undefined);
  }
};

/** Aborts when the mail is given up, and when its final dot is late. */
const deadlineOf = (given: AbortSignal, progress: Progress, deliverMs: number) => {
  const late = new AbortController();
  const timer = setTimeout(() => {
    if (!progress.atDot) late.abort();
  }, deliverMs);
  return { signal: AbortSignal.any([given, late.signal]), clear: () => clearTimeout(timer) };
};

/** Never settles: the owner that ended the transport expects no answer any more. */
const silence = new Promise<never>(() => undefined);

/** Opens nothing before the first mail. */
export const openTransport = (options: TransportOptions): Transport => {
  const timeouts = { ...usualTimeouts, ...options.timeouts };
  const pool = createSmtpPool({
    connect: () => connectSmtp({ ...options, timeouts }),
    connections: options.connections ?? 4,
    mailsPerConnection,
    idleMs: timeouts.idleMs,
  });
  options.ended?.addEventListener('abort', pool.close, { once: true });
  return {
    send: async (mail, given, onSlow = () => undefined) => {
      const progress: Progress = { atDot: false };
      const givenOrEnded = options.ended ? AbortSignal.any([given, options.ended]) : given;
      const { signal, clear } = deadlineOf(givenOrEnded, progress, timeouts.deliverMs);
      try {
        const sending = { pool, options, timeouts, mail, signal, progress, onSlow };
        return wordsOf(await unlessAborted(signal, deliver(sending)), options);
      } catch (error) {
        if (options.ended?.aborted === true) return await silence;
        throw explainMailFailure(error, options, progress.atDot);
      } finally {
        clear();
      }
    },
    close: pool.close,
  };
};
