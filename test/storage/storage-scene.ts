import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import type { TestFn } from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { type AuthScene, useAuth } from '../auth/auth-scene.ts';

type Storage = SupabaseClient['storage'];

export interface StorageScene extends AuthScene {
  /** storage-js with the secret key. */
  readonly admin: (of?: TestProject) => Storage;
  /** storage-js of a new user of the project. */
  readonly user: (
    of?: TestProject,
  ) => Promise<{ readonly storage: Storage; readonly id: string; readonly token: string }>;
  /** storage-js without a user. */
  readonly stranger: (of?: TestProject) => Storage;
  /** Runs statements as the project's owner. */
  readonly sql: (of: TestProject, ...statements: string[]) => Promise<Record<string, unknown>[]>;
  /** The answer of an address below `storage/v1`. */
  readonly fetchFile: (path: string, init?: RequestInit, of?: TestProject) => Promise<Response>;
  readonly newBucket: (options?: { public: boolean }, of?: TestProject) => Promise<string>;
}

/** A project with files. @param options of the platform; left out: the one that files share */
export const useStorage = (test: TestFn, options?: Parameters<typeof useAuth>[1]): StorageScene => {
  const auth = useAuth(test, options);
  const { platform, project, signedUp } = auth;
  const client = ({ ref }: TestProject, key: string, token?: string): Storage =>
    createClient(`${platform().base}/p/${ref}`, key, {
      ...(token !== undefined && { accessToken: () => Promise.resolve(token) }),
    }).storage;
  const admin = (of = project()): Storage => client(of, of.key);
  return {
    ...auth,
    admin,
    user: async (of = project()) => {
      const { access_token: token, user } = await signedUp(of);
      return { storage: client(of, of.publishableKey, token), id: user.id, token };
    },
    stranger: (of = project()) => client(of, of.publishableKey),
    sql: (of, ...statements) => useDatabase(platform(), of).query('owner', ...statements),
    fetchFile: (path, init, of = project()) => fetch(`${platform().base}/p/${of.ref}/storage/v1${path}`, init),
    newBucket: async (bucket = { public: false }, of = project()) => {
      const name = `b-${crypto.randomUUID().slice(0, 13)}`;
      const { error } = await admin(of).createBucket(name, bucket);
      if (error !== null) throw error;
      return name;
    },
  };
};

/** The data of an answer of storage-js. */
export const dataOf = <T>({ data, error }: { readonly data: T; readonly error: Error | null }): NonNullable<T> => {
  if (error !== null) throw error;
  if (data === null || data === undefined) throw new Error('there are no data');
  return data;
};
