import type { Readable } from 'node:stream';
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection';
import { type SmtpRoute, type SmtpServer, dial } from './smtp-server.ts';
import type { SmtpTimeouts } from './smtp-timeouts.ts';

export interface ConnectionOptions extends SmtpServer, SmtpRoute {
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
 * Connects, greets and signs in. The address is checked by `lookup`; nodemailer looks nothing up.
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
