import { type Socket, connect as connectTo } from 'node:net';
import type { Readable } from 'node:stream';
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection';
import type { Egress, EgressAddress } from '#lib/egress.ts';
import { EgressFailed } from '#lib/egress/failures.ts';

/** How long the parts of sending a mail may take, in ms. */
export interface SmtpTimeouts {
  /** From the name to the greeting. */
  readonly connectMs: number;
  /** Without a byte from the server, up to the final dot. */
  readonly silenceMs: number;
  /** From the request to the final dot, waiting for a free connection included. */
  readonly deliverMs: number;
  /** A mail whose answer takes longer than this gives its connection's place to the next mail. */
  readonly slowMs: number;
  /** From the final dot to the server's answer: RFC 5321 (4.5.3.2.6) asks for 10 minutes. */
  readonly answerMs: number;
  /** A connection without a mail is closed after this. */
  readonly idleMs: number;
}

export const usualTimeouts: SmtpTimeouts = {
  connectMs: 10_000,
  silenceMs: 30_000,
  deliverMs: 60_000,
  slowMs: 3000,
  answerMs: 600_000,
  idleMs: 30_000,
};

/**
 * When TLS begins. `start`: before a word is said. `required`: by STARTTLS, or nothing is sent. `offered`: by STARTTLS
 * where the server has it, and without it only to addresses that are open for that.
 */
type TlsRule = 'start' | 'required' | 'offered';

/** A mail server and how to sign in there. */
export interface SmtpServer {
  readonly host: string;
  readonly port: number;
  readonly tls: TlsRule;
  /** Empty: without signing in. */
  readonly username: string;
  readonly password: string;
}

/** How a server is reached. */
export interface SmtpRoute {
  /** The addresses that may be connected to. */
  readonly lookup: Egress['lookup'];
  /** Whether mail and password may go to this address without TLS, where the rule is `offered`. */
  readonly plainTo: (address: string) => boolean;
  /** Certificates (PEM) that are trusted instead of the usual ones. */
  readonly ca?: string;
}

/** The security that a port implies (contract, section 7). */
export const tlsRuleOf = (port: number): TlsRule => {
  if (port === 465) return 'start';
  return port === 587 || port === 2525 ? 'required' : 'offered';
};

const loopback = /^(127\.|::1$|::ffff:127\.)/;

/** On a developer's machine, mail catchers speak without TLS. */
export const plainRule = (local: boolean): SmtpRoute['plainTo'] =>
  local ? (address) => loopback.test(address) : () => false;

/** @throws whatever kept the connection from being made; a time-out has the code ETIMEDOUT */
const opened = (socket: Socket, timeoutMs: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.destroy(Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' }));
    }, timeoutMs);
    socket.once('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    socket.once('connect', () => {
      clearTimeout(timer);
      // The next user of the socket adds its own listener; until then an error must not end the process.
      socket.removeAllListeners('error').on('error', () => undefined);
      resolve(socket);
    });
  });

/**
 * A connection to one of these addresses, tried one after the other (RFC 8305); the name is not resolved again.
 * @throws {EgressFailed} naming the host, never an address
 */
export const dial = async (
  addresses: readonly EgressAddress[],
  { host, port }: Pick<SmtpServer, 'host' | 'port'>,
  timeoutMs: number,
): Promise<Socket> => {
  const [first] = addresses;
  if (first === undefined) throw new EgressFailed('name_not_found', host);
  const target =
    addresses.length === 1
      ? { host: first.address, port }
      : {
          host: 'mail.invalid',
          port,
          autoSelectFamily: true,
          autoSelectFamilyAttemptTimeout: Math.max(250, Math.floor(timeoutMs / addresses.length)),
          lookup: (_host: string, _options: unknown, done: (error: null, all: EgressAddress[]) => void): void =>
            done(null, [...addresses]),
        };
  try {
    return await opened(connectTo(target), timeoutMs);
  } catch (error) {
    const isLate = error instanceof Error && Reflect.get(error, 'code') === 'ETIMEDOUT';
    throw new EgressFailed(isLate ? 'timeout' : 'connection_failed', host, error);
  }
};

interface ConnectionOptions extends SmtpServer, SmtpRoute {
  readonly timeouts: SmtpTimeouts;
}

/** A mail as it goes over the wire. */
export interface Outgoing {
  readonly envelope: SMTPEnvelope;
  readonly message: Readable;
}

/** A session that was greeted and signed in; it sends one mail at a time. */
export interface SmtpConnection {
  /** Whether the server takes addresses with letters beyond ASCII before the @ (RFC 6531). */
  readonly takesUtf8: boolean;
  readonly isOpen: () => boolean;
  /**
   * Resolves with the server's answer to the whole mail.
   * @param onDot called when the last byte is handed to the socket: from here on the server may have taken the mail
   * @throws what nodemailer throws
   */
  readonly send: (mail: Outgoing, onDot: () => void) => Promise<string>;
  /** Makes the session ready for the next mail after one that was refused; without success the connection ends. */
  readonly reset: () => Promise<void>;
  readonly close: () => void;
}

const maxReplyLength = 64 * 1024;

const ended = (): Error => Object.assign(new Error('the connection ended'), { code: 'ECONNECTION' });

type Done<T> = (error?: Error | null, result?: T) => void;

const settled = <T>(begin: (done: Done<T>) => void): Promise<T | undefined> =>
  new Promise((resolve, reject) => {
    begin((error, result) => (error ? reject(error) : resolve(result)));
  });

const sessionOptions = (
  { host, port, tls, ca, timeouts, plainTo }: ConnectionOptions,
  socket: Awaited<ReturnType<typeof dial>>,
) => ({
  host,
  port,
  secure: tls === 'start',
  requireTLS: tls !== 'offered' || !plainTo(socket.remoteAddress ?? ''),
  tls: { minVersion: 'TLSv1.2' as const, ...(ca !== undefined && { ca }) },
  connection: socket,
  connectionTimeout: timeouts.connectMs,
  greetingTimeout: timeouts.connectMs,
  socketTimeout: timeouts.silenceMs,
  maxResponseSize: maxReplyLength,
});

const signIn = async (session: SMTPConnection, { username, password }: ConnectionOptions): Promise<void> => {
  if (username === '') return;
  await settled((done) => {
    session.login({ user: username, credentials: { user: username, pass: password } }, done);
  });
};

const patience = (session: SMTPConnection, ms: number): void => {
  // oxlint-disable-next-line no-underscore-dangle -- nodemailer documents it as public; after STARTTLS it is the TLS socket
  const { _socket: socket } = session;
  if (socket) socket.setTimeout(ms);
};

const connectionOf = (
  session: SMTPConnection,
  failed: Promise<never>,
  { timeouts, takesUtf8 }: { readonly timeouts: SmtpTimeouts; readonly takesUtf8: boolean },
): SmtpConnection => {
  let isOpen = true;
  session.once('end', () => {
    isOpen = false;
  });
  const close = (): void => session.close();
  return {
    takesUtf8,
    isOpen: () => isOpen,
    send: async ({ envelope, message }, onDot) => {
      message.once('end', () => {
        patience(session, timeouts.answerMs);
        onDot();
      });
      const sending = settled<{ readonly response: string }>((done) => session.send(envelope, message, done));
      const result = await Promise.race([failed, sending]);
      patience(session, timeouts.silenceMs);
      return result?.response ?? '';
    },
    reset: () => Promise.race([failed, settled((done) => session.reset(done))]).then(() => undefined, close),
    close,
  };
};

/**
 * Connects, greets and signs in. `lookup` checks the address; nodemailer resolves nothing.
 * @throws {EgressFailed} and what nodemailer throws
 */
export const connectSmtp = async (options: ConnectionOptions): Promise<SmtpConnection> => {
  const { lookup, host, timeouts } = options;
  const socket = await dial(await lookup(host), options, timeouts.connectMs);
  const session = new SMTPConnection(sessionOptions(options, socket));
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  failed.catch(() => undefined);
  session.on('error', fail);
  session.once('end', () => fail(ended()));
  try {
    await Promise.race([failed, settled((done) => session.connect(done))]);
    const takesUtf8 = /^250[ -]SMTPUTF8\b/im.test(session.lastServerResponse || '');
    await Promise.race([failed, signIn(session, options)]);
    return connectionOf(session, failed, { timeouts, takesUtf8 });
  } catch (error) {
    session.close();
    throw error;
  }
};
