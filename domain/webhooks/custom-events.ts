import type { QueryResultRow } from 'pg';
import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** An event that a project emits itself. */
export interface CustomEvent {
  /** Checked by `faultOfCustomName`. */
  readonly name: string;
  /** JSON text. */
  readonly data: string;
  /** How many jobs stand behind it that each led to the next. */
  readonly depth: number;
}

/** The same as one event may bring to a filter or a delivery (domain/webhooks/message.ts). */
const maxCustomEventBytes = 256 * 1024;

/** The events of one project that may wait, whatever they are. */
export interface WaitingEvents {
  readonly events: number;
  /** As Postgres stores them, which compresses data of more than 2 KB. */
  readonly bytes: number;
}

const mib = 1024 * 1024;
const maxWaiting: WaitingEvents = { events: 10_000, bytes: 64 * mib };

// The size of data that stand beside the row is known without reading them.
const waitingSql = `
  select count(*)::int as events, coalesce(sum(pg_column_size(data)), 0)::float8 as bytes
  from (select data from outbox_events where project_id = $1 and fanned_at is null order by project_id, id limit $2) w`;

const tooMany = (what: string): ServiceError =>
  new ServiceError('queue_full', `${what} of this project are waiting. Nothing was emitted.`, {
    hint: 'Try again when some have been passed on.',
    headers: { 'Retry-After': '5' },
  });

/** @throws {ServiceError} `queue_full` */
const requireEventRoom = async (db: Queryable, projectId: string, max: WaitingEvents): Promise<void> => {
  const { events, bytes } = await one(
    db.query<WaitingEvents & QueryResultRow>(waitingSql, [projectId, max.events], 'waiting-events'),
  );
  if (events >= max.events) throw tooMany('Too many events');
  if (bytes >= max.bytes) throw tooMany(`Events with more than ${max.bytes / mib} MB of data`);
};

/**
 * Keeps an event, when anything subscribes to it, in the caller's transaction. The fan-out is to be woken after it.
 * @throws {ServiceError} `payload_too_large`, `queue_full`
 */
export const emitCustomEvent = async (
  db: Queryable,
  projectId: string,
  { name, data, depth }: CustomEvent,
  max: WaitingEvents = maxWaiting,
): Promise<void> => {
  if (Buffer.byteLength(data) > maxCustomEventBytes)
    throw new ServiceError('payload_too_large', `The data of an event have at most ${maxCustomEventBytes} bytes.`);
  await requireEventRoom(db, projectId, max);
  await db.query(
    'insert into outbox_events (project_id, event, data, depth) values ($1, $2, $3, $4)',
    [projectId, name, data, depth],
    'emit-custom-event',
  );
};
