import type { Client, TestUser } from './client.ts';

export interface TestToken {
  readonly id: string;
  readonly token: string;
}

/** A personal access token of the user. */
export const makeToken = async (
  client: Client,
  user: TestUser,
  fields: Readonly<Record<string, unknown>> = {},
): Promise<TestToken> => {
  const answer = await client.call('POST', '/auth/tokens', { token: user.token, body: { name: 'test', ...fields } });
  if (answer.status !== 201) throw new Error(`making a token answered ${answer.status}: ${answer.text}`);
  return { id: String(answer.body.id), token: String(answer.body.token) };
};
