import type { TestFn } from 'ava';
import { until } from '#test/support/until.ts';
import type { TestProject } from '#test/support/client.ts';
import { type ReceivedMail, type TestSmtp, parseMail, startSmtp } from '#test/support/smtp.ts';
import { type AuthScene, useAuth } from './auth-scene.ts';

/** A mail with a link, as its reader sees it. */
interface LinkMail {
  readonly subject: string;
  readonly text: string;
  readonly token: string;
  readonly code: string;
  readonly url: string;
}

export interface MailScene extends AuthScene {
  readonly smtp: () => TestSmtp;
  /** A project whose mail comes to the test's server, with these settings of sign-in. */
  readonly mailProject: (settings?: object) => Promise<TestProject>;
  /** The mails to an address, once there are so many. */
  readonly mailsTo: (email: string, count?: number) => Promise<LinkMail[]>;
}

const linkMailOf = async (mail: ReceivedMail): Promise<LinkMail> => {
  const { subject = '', text = '' } = await parseMail(mail);
  const url = /https?:\/\/\S+auth\/v1\/verify\?[^\s\]]+/.exec(text)?.[0] ?? '';
  return {
    subject,
    text,
    url,
    token: URL.parse(url)?.searchParams.get('token') ?? '',
    code: /\b\d{6}\b/.exec(text.replaceAll(url, ''))?.[0] ?? '',
  };
};

/** Sign-in with mails that arrive. */
export const useAuthMails = (test: TestFn): MailScene => {
  const scene = useAuth(test, {});
  let smtp: TestSmtp;
  test.serial.before('a mail server', async () => {
    smtp = await startSmtp();
  });
  test.after.always(() => smtp?.close());
  return {
    ...scene,
    smtp: () => smtp,
    mailProject: async (settings = {}) => {
      const of = await scene.newProject();
      const { client } = scene.platform();
      const { token } = scene.developer();
      const server = { host: '127.0.0.1', port: smtp.port, from_email: 'shop@example.com', from_name: 'The Shop' };
      const put = await client.call('PUT', `/projects/${of.id}/email/smtp`, { token, body: server });
      const patch = await client.call('PATCH', `/projects/${of.id}/auth/settings`, { token, body: settings });
      if (put.status !== 200 || patch.status !== 200) throw new Error(`${put.text} ${patch.text}`);
      return of;
    },
    mailsTo: async (email, count = 1) => {
      const found = () => smtp.mails.filter(({ to }) => to.includes(email));
      await until(() => found().length >= count);
      return Promise.all(found().map(linkMailOf));
    },
  };
};
