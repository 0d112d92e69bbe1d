import { type Role, atLeast } from '#domain/teams/store.ts';

/** The uses of a personal access token; each scope includes those before it. */
export const scopes = ['read', 'write', 'admin'] as const;
export type Scope = (typeof scopes)[number];

/** The role that each scope leaves of a higher one; `admin` takes nothing away. */
const roleOf = { read: 'viewer', write: 'developer', admin: 'owner' } as const satisfies Record<Scope, Role>;

export const widestOf = (given: readonly Scope[]): Scope => scopes.findLast((scope) => given.includes(scope)) ?? 'read';

export const includes = (scope: Scope, wanted: Scope): boolean => scopes.indexOf(scope) >= scopes.indexOf(wanted);

/** The role that a member has through a credential of that scope. */
export const roleWithin = (role: Role, scope: Scope): Role => (atLeast(role, roleOf[scope]) ? roleOf[scope] : role);

/** The least scope that leaves that role. */
export const scopeFor = (role: Role): Scope => scopes.find((scope) => atLeast(roleOf[scope], role)) ?? 'admin';
