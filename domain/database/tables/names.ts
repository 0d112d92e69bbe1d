import type { TenantRole } from '#lib/tenant-db.ts';

/** The interface's pattern `<prefix>_<org_id>_<slug>`; at most 55 of PostgreSQL's 63 bytes. */
export const databaseName = (orgId: string, slug: string): string => `plinth_${orgId}_${slug}`;

/** What a project's database is called until it is closed to everybody else and marked as the project's. */
export const unfinishedDatabaseName = (ref: string): string => `plinth_unfinished_${ref}`;

/** What the database of a deleted project is called until it is dropped: its old name is free at once. */
export const deletedDatabaseName = (ref: string): string => `plinth_deleted_${ref}`;

export const roleName = (ref: string, kind: TenantRole): string => `${ref}_${kind}`;
