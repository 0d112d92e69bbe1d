import { type Socket, isIP } from 'node:net';
import { type TLSSocket, connect as connectTls } from 'node:tls';

/** A server's reply to one command. */
export interface SmtpReply {
  readonly code: number;
  /** The lines without their codes. */
  readonly lines: readonly string[];
  /** All of it, on one line. */
  readonly text: string;
}

/** Why there is no answer. */
export class DialogError extends Error {
  override readonly name = 'DialogError';
  readonly reason: 'timeout' | 'closed' | 'not_smtp' | 'tls';

  constructor(reason: DialogError['reason'], cause?: unknown) {
    super(`the SMTP dialog ended: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** One session with a mail server, a command at a time. */
export interface SmtpDialog {
  /** Reads the server's greeting, or its reply to the last command. */
  readonly reply: () => Promise<SmtpReply>;
  /** Says a line and reads the answer. @throws {DialogError} */
  readonly send: (line: string) => Promise<SmtpReply>;
  /** From here on nobody can listen. @throws {DialogError} `tls` when the certificate or the handshake is not acceptable */
  readonly secure: () => Promise<void>;
  readonly close: () => void;
}

export interface DialogOptions {
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
export const openDialog = (plain: Socket, options: DialogOptions): SmtpDialog => {
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
