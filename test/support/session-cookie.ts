import type { Answer, TestUser } from './client.ts';
import type { TestPlatform } from './platform.ts';

/** The cookie that an answer sets, as a browser sends it back. */
export const cookieOf = (answer: Answer): string => (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';

/** The cookie of a new sign-in to the dashboard. */
export const openDashboard = async ({ client }: Pick<TestPlatform, 'client'>, user: TestUser): Promise<string> => {
  const { email, password } = user;
  const answer = await client.call('POST', '/dashboard/session', { body: { email, password } });
  if (answer.status !== 204) throw new Error(`signing in to the dashboard answered ${answer.status}: ${answer.text}`);
  return cookieOf(answer);
};
