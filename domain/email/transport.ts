import { callbackify } from 'node:util';
import { createTransport } from 'nodemailer';
import type { SMTPPoolOptions } from 'nodemailer/lib/smtp-pool';
import { explainMailFailure, wordsOf } from './failure.ts';
import { type SmtpRoute, type SmtpServer, dial } from './smtp-server.ts';

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
   * @throws {MailFailure}
   */
  readonly send: (mail: Mail, signal: AbortSignal) => Promise<string>;
  /** What is being sent is sent; then the connections end. */
  readonly close: () => void;
}

export interface TransportOptions extends SmtpServer, SmtpRoute {
  /** At a time; 4 unless given. */
  readonly connections?: number;
}

/** From the name to the greeting. */
const connectTimeoutMs = 10_000;
/** Without a byte from the server. */
const silenceMs = 30_000;
const idleMs = 30_000;
const mailsPerConnection = 200;

const openSocket = async ({ lookup, plainTo, ...server }: TransportOptions) => {
  const socket = await dial(await lookup(server.host), server, connectTimeoutMs);
  return { connection: socket, requireTLS: server.tls !== 'offered' || !plainTo(socket.remoteAddress ?? '') };
};

/** Every connection is made here, to an address that was checked; nodemailer looks nothing up. */
const socketsFor = (options: TransportOptions): NonNullable<SMTPPoolOptions['getSocket']> => {
  const open = callbackify(() => openSocket(options));
  return (_options, done) => open(done);
};

const poolOptions = (options: TransportOptions): SMTPPoolOptions & { pool: true } => ({
  pool: true,
  host: options.host,
  port: options.port,
  secure: options.tls === 'start',
  tls: { minVersion: 'TLSv1.2', ...(options.ca !== undefined && { ca: options.ca }) },
  ...(options.username !== '' && { auth: { user: options.username, pass: options.password }, forceAuth: true }),
  getSocket: socketsFor(options),
  maxConnections: options.connections ?? 4,
  maxMessages: mailsPerConnection,
  // Only where the server had ended a kept connection before a byte of the mail was sent.
  maxRequeues: 2,
  idleTimeout: idleMs,
  connectionTimeout: connectTimeoutMs,
  greetingTimeout: connectTimeoutMs,
  socketTimeout: silenceMs,
  maxResponseSize: 64 * 1024,
  // A template must not name files of ours or have us fetch addresses.
  disableFileAccess: true,
  disableUrlAccess: true,
});

/** Opens nothing before the first mail. */
export const openTransport = (options: TransportOptions): Transport => {
  const mailer = createTransport(poolOptions(options));
  return {
    send: async ({ messageId, dkim, to, headers, ...mail }, signal) => {
      try {
        const { response } = await mailer.sendMail({
          ...mail,
          to: { name: '', address: to },
          messageId: `<${messageId}>`,
          ...(headers && { headers: { ...headers } }),
          ...(dkim && { dkim: { domainName: dkim.domain, keySelector: dkim.selector, privateKey: dkim.privateKey } }),
          signal,
        });
        return wordsOf(response ?? '', options);
      } catch (error) {
        throw explainMailFailure(error, options);
      }
    },
    close: () => mailer.close(),
  };
};
