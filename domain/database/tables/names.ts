import type { TenantRole } from '#lib/tenant-db.ts';

/** The interface's pattern `<prefix>_<org_id>_<slug>`; at most 55 of PostgreSQL's 63 bytes. */
export const databaseName = (orgId: string, slug: string): string => `plinth_${orgId}_${slug}`;

/** The name of a project's database until it is closed to everybody else and marked as the project's. */
export const unfinishedDatabaseName = (ref: string): string => `plinth_unfinished_${ref}`;

/** The name of a deleted project's database until it is dropped: its old name is free at once. */
export const deletedDatabaseName = (ref: string): string => `plinth_deleted_${ref}`;

export const roleName = (ref: string, kind: TenantRole): string => `${ref}_${kind}`;

// The longest result of `databaseName`, with the quotes and the word that the server puts around it.
const physicalName = /(?:\bdatabase )?"?\bplinth_[a-z][a-z0-9]{15}_[a-z][a-z0-9_]{0,30}\b"?/g;

/** A message of the server without the name that a project's database has on it: it holds the organization's id. */
export const withoutDatabaseName = (message: string): string =>
  message.includes('plinth_') ? message.replaceAll(physicalName, "the project's database") : message;
