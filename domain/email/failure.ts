import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { oneLineOf } from '#lib/one-line.ts';
import type { SmtpServer } from './smtp.ts';

/**
 * `again`: another try may do. `rejected`: it will not. `bounced`: nor will it, and the reason is the recipient.
 * `unknown`: the server had the whole mail and did not answer, so that another try might deliver it twice.
 */
export type MailFault = 'again' | 'rejected' | 'bounced' | 'unknown';

/** Why a mail was not sent, in words that its project's members may see: no password, no address of ours. */
export class MailFailure extends Error {
  override readonly name = 'MailFailure';
  readonly fault: MailFault;

  constructor(fault: MailFault, message: string) {
    super(message);
    this.fault = fault;
  }
}

const maxWordsLength = 500;

/** A server may repeat its input, the password included. */
const secretsOf = ({ username, password }: Pick<SmtpServer, 'username' | 'password'>): string[] =>
  password === ''
    ? []
    : [password, `\0${username}\0${password}`, `${username}\0${username}\0${password}`].flatMap((text) => [
        text,
        Buffer.from(text).toString('base64'),
      ]);

/** Returns a server's reply on one line, without credentials. */
export const wordsOf = (
  replyText: string,
  server: Pick<SmtpServer, 'username' | 'password'>,
  max: number = maxWordsLength,
): string =>
  oneLineOf(
    secretsOf(server).reduce((text, secret) => text.replaceAll(secret, '••••'), replyText),
    max,
  );

interface SmtpFault {
  readonly code: string;
  readonly command: string;
  readonly response: string;
  /** 0: the server said nothing. */
  readonly reply: number;
  /** The error of the connection itself, where there was one. */
  readonly cause: string;
}

const textIn = (error: object, name: string): string => {
  const value: unknown = Reflect.get(error, name);
  return typeof value === 'string' ? value : '';
};

const faultOf = (error: unknown): SmtpFault => {
  const of = typeof error === 'object' && error !== null ? error : {};
  const reply: unknown = Reflect.get(of, 'responseCode');
  return {
    code: textIn(of, 'code'),
    command: textIn(of, 'command'),
    response: textIn(of, 'response'),
    reply: typeof reply === 'number' ? reply : 0,
    cause: textIn(of, 'originalCode'),
  };
};

const unsafe = (host: string): string =>
  `There is no safe connection to ${host}: it offers no STARTTLS, or its certificate is not acceptable.`;

const sentences: Readonly<Record<string, (host: string) => string>> = {
  ETIMEDOUT: (host) => `${host} did not answer in time.`,
  EPROTOCOL: (host) => `What ${host} answered is not SMTP.`,
};

/** RFC 3463: 5.1 and 5.2 are about the recipient's address and mailbox. */
const isAboutRecipient = ({ command, response }: SmtpFault): boolean =>
  command === 'RCPT TO' || (command === 'DATA' && /^5\d\d[ -]5\.[12]\./.test(response));

const tlsCauses = /^(?:ERR_TLS|ERR_SSL|EPROTO|CERT_|HOSTNAME_MISMATCH)|_CERT|_SIGNATURE/;

const whenAnswered = (fault: SmtpFault, server: SmtpServer): MailFailure => {
  const words = wordsOf(fault.response, server);
  // 503 says that the session was in the wrong state, not that the mail was refused.
  if (fault.reply < 500 || fault.reply === 503) return new MailFailure('again', `The mail server said: ${words}`);
  if (fault.code === 'EAUTH') {
    return new MailFailure('rejected', `The mail server refused the user name or the password: ${words}`);
  }
  return new MailFailure(isAboutRecipient(fault) ? 'bounced' : 'rejected', `The mail server said: ${words}`);
};

const withoutAnswer = (host: string): string =>
  `${host} received the whole mail and did not say whether it took it. It may have been delivered, so it is not sent again by itself.`;

/** Faults of the mail or of the settings, found before the server said anything about them. */
const rejections: Readonly<Record<string, (host: string) => string>> = {
  EMESSAGE: () => 'The mail is larger than the server takes.',
  EAUTH: (host) => `${host} offers no way to sign in that is known here.`,
  // Errors of messages that cannot be composed.
  EENVELOPE: () => 'The recipient is not an address that mail can go to.',
};

const explainFault = (fault: SmtpFault, server: SmtpServer): MailFailure => {
  const isTls = fault.code === 'ETLS' || tlsCauses.test(fault.cause);
  // A server that has no STARTTLS will have none in a minute.
  if (isTls) return new MailFailure(fault.reply >= 500 ? 'rejected' : 'again', unsafe(server.host));
  if (fault.reply > 0) return whenAnswered(fault, server);
  const rejection = rejections[fault.code];
  if (rejection) return new MailFailure('rejected', rejection(server.host));
  const sentence = sentences[fault.code] ?? ((host: string) => `${host} closed the connection before it had answered.`);
  return new MailFailure('again', sentence(server.host));
};

/**
 * Explains what nodemailer or the way out has thrown.
 * @param atDot whether the server may have had the whole mail by then
 */
export const explainMailFailure = (error: unknown, server: SmtpServer, atDot = false): MailFailure => {
  if (error instanceof MailFailure) return error;
  if (error instanceof EgressRefused) return new MailFailure('rejected', error.message);
  if (error instanceof EgressFailed) return new MailFailure('again', error.message);
  const fault = faultOf(error);
  if (atDot && fault.reply === 0) return new MailFailure('unknown', withoutAnswer(server.host));
  return explainFault(fault, server);
};
