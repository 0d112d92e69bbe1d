import type { TestFn } from 'ava';
import { type SupabaseClient, createClient } from '@supabase/supabase-js';
import type { Answer, CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';

export const password = 'correct horse battery';

export const newEmail = (): string => `${crypto.randomUUID()}@example.com`;

/** A user of a project's application, as `auth/v1` answers a sign-in. */
export interface AppSession {
  readonly access_token: string;
  readonly refresh_token: string;
  readonly expires_in: number;
  readonly expires_at: number;
  readonly user: { readonly id: string; readonly email: string };
}

export interface AuthScene {
  readonly platform: () => TestPlatform;
  /** Calls `auth/v1` of a project; left out: the file's own. */
  readonly ask: (
    method: string,
    path: string,
    options?: CallOptions,
    of?: Pick<TestProject, 'ref' | 'publishableKey'>,
  ) => Promise<Answer>;
  readonly project: () => TestProject;
  /** The developer who owns the project. */
  readonly developer: () => TestUser;
  readonly newProject: () => Promise<TestProject>;
  /** supabase-js as a page has it. */
  readonly app: (of?: TestProject, key?: string, flowType?: 'implicit' | 'pkce') => SupabaseClient;
  readonly signedUp: (of?: TestProject, email?: string) => Promise<AppSession>;
  /** As `signedUp`, with an address that an administrator vouches for. */
  readonly proved: (of?: TestProject, email?: string) => Promise<AppSession>;
  readonly signIn: (email: string, given?: string, of?: TestProject) => Promise<Answer>;
  readonly refresh: (token: string, of?: TestProject) => Promise<Answer>;
}

const storage = () => {
  const kept = new Map<string, string>();
  return {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  };
};

/** A project whose users sign in. @param options of the platform; left out: the one that files share */
export const useAuth = (test: TestFn, options: Parameters<typeof usePlatform>[1] = { shared: true }): AuthScene => {
  const platform = usePlatform(test, options);
  let developer: TestUser;
  let project: TestProject;
  test.serial.before('a project', async () => {
    developer = await platform().client.signUp();
    project = await platform().client.createProject(developer, { plan: 'enterprise' });
  });
  const ask: AuthScene['ask'] = (method, path, options = {}, { ref, publishableKey } = project) =>
    platform().client.call(method, `/p/${ref}/auth/v1${path}`, { key: publishableKey, ...options });
  const signedUp: AuthScene['signedUp'] = async (of = project, email = newEmail()) => {
    const { status, body, text } = await ask('POST', '/signup', { body: { email, password } }, of);
    if (status !== 200) throw new Error(`sign-up answered ${status}: ${text}`);
    return body;
  };
  return {
    platform,
    ask,
    project: () => project,
    developer: () => developer,
    newProject: () => platform().client.createProject(developer, { plan: 'enterprise' }),
    app: (of = project, key = of.publishableKey, flowType = 'implicit') =>
      createClient(`${platform().base}/p/${of.ref}`, key, {
        auth: { storage: storage(), autoRefreshToken: false, detectSessionInUrl: false, flowType },
      }),
    signedUp,
    proved: async (of = project, email = newEmail()) => {
      const session = await signedUp(of, email);
      const path = `/projects/${of.id}/users/${session.user.id}`;
      const { token } = developer;
      const { status, text } = await platform().client.call('PATCH', path, { token, body: { email_verified: true } });
      if (status !== 200) throw new Error(text);
      return session;
    },
    signIn: (email, given = password, of = project) =>
      ask('POST', '/token?grant_type=password', { body: { email, password: given } }, of),
    refresh: (token, of = project) =>
      ask('POST', '/token?grant_type=refresh_token', { body: { refresh_token: token } }, of),
  };
};
