import type { Readable } from 'node:stream';
import { createTransport } from 'nodemailer';
import { MailFailure, explainMailFailure, wordsOf } from './failure.ts';
import { type Outgoing, connectSmtp } from './smtp-connection.ts';
import { type Lent, type SmtpPool, createSmtpPool } from './smtp-pool.ts';
import type { SmtpRoute, SmtpServer } from './smtp-server.ts';
import { type SmtpTimeouts, usualTimeouts } from './smtp-timeouts.ts';

/** Signs mail, so that receivers can see that the domain's owner sent it (RFC 6376). */
export interface Dkim {
  readonly domain: string;
  readonly selector: string;
  /** PEM. */
  readonly privateKey: string;
}

/** One mail to one recipient. */
export interface Mail {
  /** Without the angle brackets. The same on each try: receivers may tell a repetition by it. */
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

/** Never settles: whoever ended the transport asks for no answer any more. */
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
