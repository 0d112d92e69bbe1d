import type { Client } from './client.ts';
import type { TestPlatform } from './platform.ts';
import { until } from './until.ts';

/** Resolves when all that was asked for by then is mailed, or known not to be mailed. */
export const untilResetsAreSent = ({ db }: Pick<TestPlatform, 'db'>): Promise<unknown> =>
  until(async () => (await db.query('select from reset_requests')).length === 0);

/** Asks for a reset link; it is mailed once this resolves. */
export const askForReset = async (
  platform: { readonly client: Client } & Pick<TestPlatform, 'db'>,
  email: string,
): Promise<void> => {
  const requested = await platform.client.call('POST', '/auth/forgot', { body: { email } });
  if (requested.status !== 202) throw new Error(requested.text);
  await untilResetsAreSent(platform);
};
