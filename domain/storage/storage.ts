/*
 * Files of a project: rows in its own database, where policies decide, and bytes in the object store. The way through
 * this folder: this file (what all of it needs), names.ts, tickets.ts (what the platform allows to be written), store.ts
 * (the statements), errors.ts (what a caller sees of a failure), limits.ts, buckets.ts, upload.ts (new content),
 * objects.ts (move, copy, remove), read.ts and serving.ts (downloads), list.ts, signed-urls.ts, sweep.ts (bytes that no
 * row names) and check.ts (whether rows and bytes agree). Decision 062.
 */
import type { DataCaller, DataDb } from '#domain/data-api/data-api.ts';
import { storageTicketKey } from '#domain/database-servers/provision.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import type { ObjectStore } from '#lib/object-store/object-store.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { StorageConfig } from './limits.ts';
import type { Owner, Ticket } from './tickets.ts';
import { signTicket } from './tickets.ts';

export interface StorageDeps {
  readonly data: DataDb;
  readonly bytes: ObjectStore;
  readonly sealer: (project: Pick<Project, 'id' | 'data_key'>) => Sealer;
  readonly config: StorageConfig;
  /** Says that the project's outbox may hold an event. */
  readonly markDirty: (projectId: string) => void;
  /** Says that bytes of the project are to be deleted once their grace is over; `now`: they take too much room. */
  readonly markRemoved: (projectId: string, when?: 'now') => void;
}

/** A request to the files of a project. */
export interface StorageCall {
  readonly project: Project;
  /** As whom policies are asked. */
  readonly caller: DataCaller;
  readonly signal: Disconnection;
}

const service = { role: 'service', claims: '{"role":"service_role"}' } as const;

/** The platform itself, for what no policy decides: public objects, and what a signature allows. */
export const asPlatform = (call: Pick<StorageCall, 'project' | 'signal'>): StorageCall => ({
  project: call.project,
  signal: call.signal,
  caller: { projectId: call.project.id, ...service },
});

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** The user who calls, as objects name their owner. */
export const ownerOf = ({ caller }: Pick<StorageCall, 'caller'>): Owner => {
  const { sub } = JSON.parse(caller.claims) as { sub?: unknown };
  if (typeof sub !== 'string') return { owner: null, owner_id: null };
  return { owner: sub, owner_id: uuid.test(sub) ? sub : null };
};

export const ticketFor = ({ sealer }: StorageDeps, { project }: Pick<StorageCall, 'project'>, ticket: Ticket): string =>
  signTicket(storageTicketKey(sealer(project)), ticket);
