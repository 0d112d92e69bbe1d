import { type TestPlatform, opsToken } from './platform.ts';

export interface PlatformMailRow {
  readonly id: string;
  readonly recipient: string;
  readonly subject: string;
  readonly body: string;
}

/** The mails that the platform wrote to an address, the newest first. */
export const platformMailsTo = async (
  { client }: Pick<TestPlatform, 'client'>,
  email: string,
): Promise<readonly PlatformMailRow[]> => {
  const { body } = await client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  return body.mails.filter(({ recipient }: PlatformMailRow) => recipient === email);
};

/** The token of the link in the newest of them that has such a link. */
export const linkTokenTo = async (
  platform: Pick<TestPlatform, 'client'>,
  email: string,
  path: 'confirm-email' | 'reset-password' | 'invite',
): Promise<string> => {
  const pattern = new RegExp(`/${path}/(\\S+)`);
  for (const { body } of await platformMailsTo(platform, email)) {
    const [, token] = pattern.exec(body) ?? [];
    if (token !== undefined) return token;
  }
  throw new Error(`no mail to ${email} has a link to ${path}`);
};
