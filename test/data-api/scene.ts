import type { TestFn } from 'ava';
import { createTenantDb } from '#lib/tenant-db.ts';
import { type TestProject, type TestUser } from '#test/support/client.ts';
import { type StartOptions, type TestPlatform, memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';

export interface DataScene {
  readonly platform: TestPlatform;
  readonly user: TestUser;
  readonly project: TestProject;
  /** Runs statements as the project's owner, in order. */
  readonly asOwner: (...statements: readonly string[]) => Promise<void>;
  /** The rows of one statement, as the owner. */
  readonly rows: (sql: string, params?: readonly unknown[]) => Promise<Record<string, unknown>[]>;
}

/** A project whose tables the tests of a file use. */
export const useDataScene = (test: TestFn, options: StartOptions = {}): (() => DataScene) => {
  const platform = usePlatform(test, options);
  let scene: DataScene | undefined;
  test.serial.before('a project', async () => {
    const user = await platform().client.signUp();
    const project = await platform().client.createProject(user, { plan: 'enterprise' });
    const login = await tenantLogin(platform(), project.id, 'owner');
    const rows: DataScene['rows'] = (sql, params = []) =>
      asTenant(login, async (client) => (await client.query(sql, [...params])).rows as Record<string, unknown>[]);
    scene = {
      platform: platform(),
      user,
      project,
      rows,
      asOwner: (...statements) =>
        asTenant(login, async (client) => {
          for (const sql of statements) await client.query(sql);
        }),
    };
  });
  return () => {
    if (scene === undefined) throw new Error('there is no project yet');
    return scene;
  };
};

/** Connections of its own to the project's database, for what is tried below the API. */
export const tenantDbOf = (platform: TestPlatform) =>
  createTenantDb({
    budget: 20,
    login: (projectId, role) => tenantLogin(platform, projectId, role),
    log: memoryLog().log,
  });
