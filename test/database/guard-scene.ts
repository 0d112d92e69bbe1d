import type { TenantRole } from '#lib/tenant-db.ts';
import type { TestPlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';

/** A project's database, used as each of its roles. */
export interface ProjectDatabase {
  readonly id: string;
  readonly name: string;
  readonly ref: string;
  /** Runs statements in a session of a role, answers the rows of the last. */
  readonly query: (role: TenantRole, ...statements: string[]) => Promise<Record<string, unknown>[]>;
  /** The SQLSTATE that they end with; null when they work. */
  readonly stateOf: (role: TenantRole, ...statements: string[]) => Promise<string | null>;
  /** The same as an end user. */
  readonly stateAs: (role: 'anon' | 'authenticated', ...statements: string[]) => Promise<string | null>;
}

export const useDatabase = (
  platform: TestPlatform,
  { id, dbName, ref }: { readonly id: string; readonly dbName: string; readonly ref: string },
): ProjectDatabase => {
  const query: ProjectDatabase['query'] = async (role, ...statements) =>
    asTenant(await tenantLogin(platform, id, role), async (session) => {
      let rows: Record<string, unknown>[] = [];
      for (const sql of statements) rows = (await session.query(sql)).rows as typeof rows;
      return rows;
    });
  const stateOf: ProjectDatabase['stateOf'] = (role, ...statements) => sqlStateOf(query(role, ...statements));
  return {
    id,
    name: dbName,
    ref,
    query,
    stateOf,
    stateAs: (role, ...statements) => stateOf('api', `set role ${role}`, ...statements),
  };
};

/** A new project's. */
export const makeDatabase = async (platform: TestPlatform): Promise<ProjectDatabase> =>
  useDatabase(platform, await platform.client.createProject(await platform.client.signUp()));

export const denied = '42501';
