import { createHmac } from 'node:crypto';
import { type Socket, isIP } from 'node:net';
import { type TLSSocket, connect as connectTls } from 'node:tls';
import type { EgressAddress } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { domainOf } from './address.ts';
import { wordsOf } from './failure.ts';
import { type SmtpRoute, type SmtpServer, dial } from './smtp.ts';

/** A server's reply to one command. */
interface SmtpReply {
  readonly code: number;
  /** The lines without their codes. */
  readonly lines: readonly string[];
  /** All of it, on one line. */
  readonly text: string;
}

/** Why there is no answer. */
class DialogError extends Error {
  override readonly name = 'DialogError';
  readonly reason: 'timeout' | 'closed' | 'not_smtp' | 'tls';

  constructor(reason: DialogError['reason'], cause?: unknown) {
    super(`the SMTP dialog ended: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** One session with a mail server, a command at a time. */
interface SmtpDialog {
  /** Reads the server's greeting, or its reply to the last command. */
  readonly reply: () => Promise<SmtpReply>;
  /** Says a line and reads the answer. @throws {DialogError} */
  readonly send: (line: string) => Promise<SmtpReply>;
  /** From here on the connection cannot be read by others. */
  readonly secure: () => Promise<void>;
  readonly close: () => void;
}

interface DialogOptions {
  /** As its owner wrote it: its certificate must be for this name. */
  readonly host: string;
  /** For one answer, however many bytes a second arrive. */
  readonly timeoutMs: number;
  readonly ca?: string | undefined;
}

const maxReplyLength = 64 * 1024;
// The last line of an answer has a space behind its code, or nothing.
const wholeReply = /^(?:\d{3}-[^\n]*\n)*\d{3}(?: [^\n]*)?\n/;

const parseReply = (whole: string): SmtpReply => {
  const lines = whole.trimEnd().split(/\r?\n/);
  return { code: Number(whole.slice(0, 3)), lines: lines.map((line) => line.slice(4)), text: lines.join(' ') };
};

/** The first whole answer of what has arrived; null when more has to come. */
const takeReply = (arrived: string): SmtpReply | null => {
  const whole = wholeReply.exec(arrived)?.[0];
  if (whole !== undefined) return parseReply(whole);
  const line = arrived.indexOf('\n') === -1 ? '' : arrived.slice(0, arrived.indexOf('\n'));
  if (arrived.length > maxReplyLength || (line !== '' && !/^\d{3}[- \r]?/.test(line)))
    throw new DialogError('not_smtp');
  return null;
};

const handshake = (socket: Socket, { host, timeoutMs, ca }: DialogOptions): Promise<TLSSocket> =>
  new Promise((resolve, reject) => {
    const name = host.replace(/^\[(.*)\]$/, '$1');
    const secured = connectTls({
      socket,
      host: name,
      ...(isIP(name) === 0 && { servername: name }),
      minVersion: 'TLSv1.2',
      ...(ca !== undefined && { ca }),
    });
    const timer = setTimeout(() => secured.destroy(new DialogError('timeout')), timeoutMs);
    const fail = (error?: Error): void => {
      clearTimeout(timer);
      reject(error instanceof DialogError ? error : new DialogError('tls', error));
    };
    secured.once('error', fail).once('close', () => fail());
    secured.once('secureConnect', () => {
      clearTimeout(timer);
      secured
        .removeAllListeners('error')
        .removeAllListeners('close')
        .on('error', () => undefined);
      resolve(secured);
    });
  });

/** The bytes that have arrived and were not read yet. */
interface Inbox {
  text: string;
  isOver: boolean;
  wake: (() => void) | null;
}

const fill = (inbox: Inbox, socket: Socket): void => {
  const end = (): void => {
    inbox.isOver = true;
    inbox.wake?.();
  };
  socket.on('data', (chunk: Buffer) => {
    // More than an answer is not kept; latin1, so that a letter cut in two between chunks stays as it is.
    if (inbox.text.length <= maxReplyLength) inbox.text += chunk.toString('latin1');
    inbox.wake?.();
  });
  socket.on('error', end).on('close', end);
};

/** Resolves when something has arrived, or after so long. */
const stirred = (inbox: Inbox, withinMs: number): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, withinMs);
    inbox.wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });

const nextReply = async (inbox: Inbox, timeoutMs: number): Promise<SmtpReply> => {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const found = takeReply(inbox.text);
    if (found) {
      inbox.text = '';
      return { ...found, text: Buffer.from(found.text, 'latin1').toString() };
    }
    if (inbox.isOver) throw new DialogError('closed');
    const left = until - performance.now();
    if (left <= 0) throw new DialogError('timeout');
    await stirred(inbox, left);
  }
};

/** @param plain connected a moment ago, nothing read */
const openDialog = (plain: Socket, options: DialogOptions): SmtpDialog => {
  const inbox: Inbox = { text: '', isOver: false, wake: null };
  let socket = plain;
  fill(inbox, socket);
  const reply = (): Promise<SmtpReply> => nextReply(inbox, options.timeoutMs);
  return {
    reply,
    send: (line) => {
      socket.write(`${line}\r\n`);
      return reply();
    },
    secure: async () => {
      socket.removeAllListeners();
      socket.on('error', () => undefined);
      socket = await handshake(socket, options);
      // Whatever was said before was not said by whom we speak with now (RFC 3207, section 6).
      inbox.text = '';
      fill(inbox, socket);
    },
    close: () => socket.destroy(),
  };
};

type Credentials = Pick<SmtpServer, 'username' | 'password'>;

const base64 = (text: string): string => Buffer.from(text).toString('base64');

const plain = (dialog: SmtpDialog, { username, password }: Credentials): Promise<SmtpReply> =>
  dialog.send(`AUTH PLAIN ${base64(`\0${username}\0${password}`)}`);

const login = async (dialog: SmtpDialog, { username, password }: Credentials): Promise<SmtpReply> => {
  const prompted = await dialog.send('AUTH LOGIN');
  if (prompted.code !== 334) return prompted;
  const reply = await dialog.send(base64(username));
  return reply.code === 334 ? dialog.send(base64(password)) : reply;
};

const cramMd5 = async (dialog: SmtpDialog, { username, password }: Credentials): Promise<SmtpReply> => {
  const prompted = await dialog.send('AUTH CRAM-MD5');
  if (prompted.code !== 334) return prompted;
  const challenge = Buffer.from(prompted.lines[0] ?? '', 'base64');
  return dialog.send(base64(`${username} ${createHmac('md5', password).update(challenge).digest('hex')}`));
};

const ways = { PLAIN: plain, LOGIN: login, 'CRAM-MD5': cramMd5 } as const;

/**
 * Signs in the first way that the server offers and that is known here.
 * @param offered the lines of the answer to EHLO
 * @returns the server's last word; null when it offers none
 */
const signIn = async (
  dialog: SmtpDialog,
  offered: readonly string[],
  credentials: Credentials,
): Promise<SmtpReply | null> => {
  const line = offered.find((text) => /^AUTH[ =]/i.test(text)) ?? '';
  const names = line.toUpperCase().split(/[ =]+/).slice(1);
  const way = names.find((name): name is keyof typeof ways => Object.hasOwn(ways, name));
  return way === undefined ? null : ways[way](dialog, credentials);
};

export const checkSteps = ['dns', 'connect', 'tls', 'auth', 'mail'] as const;

interface CheckStep {
  readonly name: (typeof checkSteps)[number];
  readonly ok: boolean;
  readonly ms: number;
  /** The problem and its remedy; null when it went well. */
  readonly error: string | null;
}

/** The steps in order; those behind the first that failed are missing. */
interface SmtpCheck {
  readonly ok: boolean;
  readonly steps: readonly CheckStep[];
}

interface CheckOptions extends SmtpServer, SmtpRoute {
  readonly fromEmail: string;
  /** For each step, whatever it takes; 10 s unless given. */
  readonly timeoutMs?: number;
  /** For all of them; 40 s unless given. */
  readonly totalMs?: number;
}

const usualTimeoutMs = 10_000;
const usualTotalMs = 40_000;
const maxBannerWords = 200;

/** A step that did not go well, in words for the settings' owner. */
class StepFailed extends Error {}

interface Session {
  addresses: readonly EgressAddress[];
  socket: Socket | undefined;
  dialog: SmtpDialog | undefined;
  /** The lines of the last answer to EHLO. */
  offered: readonly string[];
  /** The step was given up: what it still opens is closed. */
  isOver: boolean;
}

const hangUp = ({ dialog, socket }: Session): void => {
  dialog?.close();
  socket?.destroy();
};

const dialogOf = ({ dialog }: Session): SmtpDialog => {
  if (dialog === undefined) throw new Error('the steps come in their order');
  return dialog;
};

const dialogSentences: Readonly<Record<DialogError['reason'], (host: string, port: number) => string>> = {
  timeout: (host) => `${host} did not answer in time. Is it a mail server, and is the port right?`,
  closed: (host) => `${host} closed the connection. Some servers do so with addresses that they do not know.`,
  not_smtp: (host, port) => `What answers at ${host} on port ${port} does not speak SMTP. Is the port right?`,
  tls: (host) =>
    `There is no safe connection to ${host}: its certificate is not valid for this name, or TLS is not spoken on this port.`,
};

const egressHints = {
  timeout: 'Is the port right, and does a firewall let it through?',
  connection_failed: 'Is the port right, and does the server run?',
} as const;

const explain = (error: unknown, { host, port }: SmtpServer): string | null => {
  if (error instanceof StepFailed) return error.message;
  if (error instanceof DialogError) return dialogSentences[error.reason](host, port);
  if (error instanceof EgressRefused) return `${error.message}${error.hint === null ? '' : ` ${error.hint}`}`;
  if (!(error instanceof EgressFailed)) return null;
  const hint = Object.hasOwn(egressHints, error.reason) ? egressHints[error.reason as keyof typeof egressHints] : '';
  return `${error.message} ${hint}`.trimEnd();
};

const demand = (reply: SmtpReply, options: CheckOptions, what: string): SmtpReply => {
  if (reply.code >= 200 && reply.code < 300) return reply;
  throw new StepFailed(`${what} The server said: ${wordsOf(reply.text, options)}`);
};

/**
 * With these a mail server sends somebody away whom it does not want; other services that begin with numbers have
 * others.
 */
const mailRefusals = new Set([421, 450, 451, 454, 521, 550, 554, 556]);

/**
 * The same before the server has shown that it speaks SMTP: what another service says of itself is not passed on.
 * @throws {DialogError} `not_smtp`
 */
const demandOfMailServer = (reply: SmtpReply, options: CheckOptions, code: 220 | 250): SmtpReply => {
  if (reply.code === code) return reply;
  if (!mailRefusals.has(reply.code)) throw new DialogError('not_smtp');
  const words = wordsOf(reply.text, options, maxBannerWords);
  throw new StepFailed(`The server does not want to speak with us. The server said: ${words}`);
};

/** The name that we give to servers; they require a name or an address in brackets. */
const greet = async (session: Session, options: CheckOptions): Promise<void> => {
  const reply = await dialogOf(session).send('EHLO [127.0.0.1]');
  session.offered = demandOfMailServer(reply, options, 250).lines;
};

const startDialog = async (session: Session, options: CheckOptions): Promise<void> => {
  demandOfMailServer(await dialogOf(session).reply(), options, 220);
  await greet(session, options);
};

const connect = async (session: Session, options: CheckOptions): Promise<void> => {
  const timeoutMs = options.timeoutMs ?? usualTimeoutMs;
  session.socket = await dial(session.addresses, options, timeoutMs);
  if (session.isOver) return hangUp(session);
  session.dialog = openDialog(session.socket, { host: options.host, timeoutMs, ca: options.ca });
  if (options.tls !== 'start') await startDialog(session, options);
};

const secure = async (session: Session, options: CheckOptions): Promise<void> => {
  const dialog = dialogOf(session);
  if (options.tls === 'start') {
    await dialog.secure();
    return startDialog(session, options);
  }
  if (!session.offered.some((line) => /^STARTTLS\b/i.test(line))) {
    if (options.tls === 'offered' && options.plainTo(session.socket?.remoteAddress ?? '')) return;
    throw new StepFailed(
      'The server offers no STARTTLS, and without TLS no password is sent. Does port 465 or 587 work?',
    );
  }
  demand(await dialog.send('STARTTLS'), options, 'The server refused to begin TLS.');
  await dialog.secure();
  await greet(session, options);
};

const authenticate = async (session: Session, options: CheckOptions): Promise<void> => {
  if (options.username === '') return;
  const reply = await signIn(dialogOf(session), session.offered, options);
  if (reply === null) {
    throw new StepFailed(
      'The server offers no way to sign in that is known here. Leave the user name empty if it asks for none.',
    );
  }
  demand(
    reply,
    options,
    'The user name or the password is not right; some services want a password made for programs.',
  );
};

/** As far as the server says whether it would take a mail; nothing is sent. */
const tryMail = async (session: Session, options: CheckOptions): Promise<void> => {
  const dialog = dialogOf(session);
  const local = options.fromEmail.slice(0, options.fromEmail.lastIndexOf('@'));
  const address = `${local}@${domainOf(options.fromEmail)}`;
  const isUtf8 = /[^\x20-\x7e]/.test(local);
  if (isUtf8 && !session.offered.some((line) => /^SMTPUTF8\b/i.test(line))) {
    throw new StepFailed(
      `The server takes no addresses with letters beyond ASCII before the @ (it has no SMTPUTF8), and ${options.fromEmail} is one.`,
    );
  }
  const from = await dialog.send(`MAIL FROM:<${address}>${isUtf8 ? ' SMTPUTF8' : ''}`);
  demand(from, options, `The server does not send for ${options.fromEmail}. Does the address belong to the account?`);
  demand(await dialog.send(`RCPT TO:<${address}>`), options, `The server takes no mail to ${options.fromEmail}.`);
  await dialog.send('RSET');
};

const works: Readonly<Record<CheckStep['name'], (session: Session, options: CheckOptions) => Promise<void>>> = {
  dns: async (session, options) => {
    session.addresses = await options.lookup(options.host);
  },
  connect,
  tls: secure,
  auth: authenticate,
  mail: tryMail,
};

/** Ends what takes longer, however often the server says a little in between. */
const within = async (ms: number, session: Session, work: Promise<void>): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new DialogError('timeout'));
      session.isOver = true;
      hangUp(session);
    }, ms);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    // A result that comes too late has no reader.
    work.catch(() => undefined);
  }
};

const runStep = async (
  name: CheckStep['name'],
  session: Session,
  { until, ...options }: CheckOptions & { readonly until: number },
): Promise<CheckStep> => {
  const began = performance.now();
  const took = (): number => Math.round(performance.now() - began);
  try {
    const ms = Math.min(options.timeoutMs ?? usualTimeoutMs, Math.max(0, until - began));
    await within(ms, session, works[name](session, options));
    return { name, ok: true, ms: took(), error: null };
  } catch (error) {
    const isLateName = name === 'dns' && error instanceof DialogError;
    const explanation = isLateName ? `The address of ${options.host} was not found in time.` : explain(error, options);
    if (explanation === null) throw error;
    return { name, ok: false, ms: took(), error: explanation };
  }
};

/** Does everything that sending a mail does except for the mail, and reports how far it came. */
export const checkSmtp = async (options: CheckOptions): Promise<SmtpCheck> => {
  const session: Session = { addresses: [], socket: undefined, dialog: undefined, offered: [], isOver: false };
  const until = performance.now() + (options.totalMs ?? usualTotalMs);
  const steps: CheckStep[] = [];
  try {
    for (const name of checkSteps) {
      steps.push(await runStep(name, session, { ...options, until }));
      if (steps.at(-1)?.ok !== true) return { ok: false, steps };
    }
    return { ok: true, steps };
  } finally {
    hangUp(session);
  }
};
