import { createHmac } from 'node:crypto';
import type { SmtpDialog, SmtpReply } from './smtp-dialog.ts';
import type { SmtpServer } from './smtp-server.ts';

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
export const signIn = async (
  dialog: SmtpDialog,
  offered: readonly string[],
  credentials: Credentials,
): Promise<SmtpReply | null> => {
  const line = offered.find((text) => /^AUTH[ =]/i.test(text)) ?? '';
  const names = line.toUpperCase().split(/[ =]+/).slice(1);
  const way = names.find((name): name is keyof typeof ways => Object.hasOwn(ways, name));
  return way === undefined ? null : ways[way](dialog, credentials);
};
