import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';

/** A certificate that its own key signed, and that key, as PEM. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** For these names, two days long. */
export const makeCertificate = (...names: readonly string[]): Certificate => {
  const alternatives = names.map((name) => (/^[\d.]+$/.test(name) ? `IP:${name}` : `DNS:${name}`)).join(',');
  const options = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout - -out - -subj /CN=${names[0]} -addext subjectAltName=${alternatives}`;
  const made = execFileSync('openssl', options.split(' '), { stdio: ['ignore', 'pipe', 'ignore'] }).toString();
  const part = (what: string): string =>
    new RegExp(`-----BEGIN ${what}-----[^]*?-----END ${what}-----`).exec(made)?.[0] ?? '';
  return { key: part('PRIVATE KEY'), cert: part('CERTIFICATE') };
};

/** A mail as it arrived. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  readonly raw: string;
  readonly user: string | undefined;
  /** Names the connection that it came over. */
  readonly connection: string;
  readonly secure: boolean;
}

/**
 * The server's reaction to a mail: it takes it, refuses it with a code, hangs up silently, or takes it and hangs up.
 */
type Verdict = 'take' | 'hang up' | 'take and hang up' | { readonly code: number; readonly text: string };

export interface SmtpOptions {
  /** Left out: no TLS, and no STARTTLS. */
  readonly tls?: 'start' | 'starttls';
  readonly certificate?: Certificate;
  /** Left out: nobody signs in. */
  readonly user?: { readonly name: string; readonly password: string };
  /** @param nth 1 for the first mail */
  readonly onMail?: (mail: ReceivedMail, nth: number) => Verdict | Promise<Verdict>;
  /** Addresses with letters beyond ASCII are not taken (no SMTPUTF8). */
  readonly asciiOnly?: boolean;
  /** Null: taken. */
  readonly onRecipient?: (address: string) => { readonly code: number; readonly text: string } | null;
}

/** A mail server on 127.0.0.1. */
export interface TestSmtp {
  readonly port: number;
  readonly mails: readonly ReceivedMail[];
  /** How many connections there were, and how many there are. */
  readonly connections: () => { readonly ever: number; readonly now: number };
  readonly close: () => Promise<void>;
}

const fault = ({ code, text: message }: { code: number; text: string }): Error =>
  Object.assign(new Error(message), { responseCode: code });

const mailOf = (raw: string, session: SMTPServerSession): ReceivedMail => ({
  from: session.envelope.mailFrom === false ? '' : session.envelope.mailFrom.address,
  to: session.envelope.rcptTo.map(({ address }) => address),
  raw,
  user: typeof session.user === 'string' ? session.user : undefined,
  connection: session.id,
  secure: session.secure,
});

const disabled = ({ tls, user }: SmtpOptions): string[] => [
  ...(tls === 'starttls' ? [] : ['STARTTLS']),
  ...(user === undefined ? ['AUTH'] : []),
];

/** Ends that connection after what was written to it. */
const hangUp = (server: SMTPServer, id: string): void => {
  for (const connection of server.connections) if (connection.id === id) connection.close();
};

const answer =
  (server: SMTPServer, session: SMTPServerSession, done: (error?: Error | null) => void) =>
  (verdict: Verdict): void => {
    if (verdict === 'hang up') return hangUp(server, session.id);
    done(typeof verdict === 'object' ? fault(verdict) : null);
    if (verdict === 'take and hang up') hangUp(server, session.id);
  };

export const startSmtp = async (options: SmtpOptions = {}): Promise<TestSmtp> => {
  const mails: ReceivedMail[] = [];
  let ever = 0;
  const { tls, certificate, user } = options;
  const receive = async (stream: Readable, session: SMTPServerSession, done: (error?: Error | null) => void) => {
    const mail = mailOf(await text(stream), session);
    mails.push(mail);
    answer(server, session, done)((await options.onMail?.(mail, mails.length)) ?? 'take');
  };
  const server: SMTPServer = new SMTPServer({
    secure: tls === 'start',
    ...(certificate && { key: certificate.key, cert: certificate.cert }),
    disabledCommands: disabled(options),
    hideSMTPUTF8: options.asciiOnly === true,
    authOptional: user === undefined,
    allowInsecureAuth: true,
    disableReverseLookup: true,
    closeTimeout: 100,
    onConnect: (_session, done) => {
      ever += 1;
      done();
    },
    onAuth: (given, _session, done) =>
      given.username === user?.name && given.password === user?.password
        ? done(null, { user: given.username })
        : done(fault({ code: 535, text: `5.7.8 No, ${given.username}, ${given.password} is wrong` })),
    onRcptTo: ({ address }, _session, done) => {
      const refusal = options.onRecipient?.(address) ?? null;
      done(refusal && fault(refusal));
    },
    onData: (stream, session, done) => void receive(stream, session, done),
  });
  server.on('error', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  return {
    port: (server.server.address() as AddressInfo).port,
    mails,
    connections: () => ({ ever, now: server.connections.size }),
    close: () =>
      new Promise((resolve) => {
        for (const connection of server.connections) connection.close();
        server.close(() => resolve());
      }),
  };
};

/** A received mail, taken apart. */
export const parseMail = ({ raw }: Pick<ReceivedMail, 'raw'>): Promise<Email> => PostalMime.parse(raw);
