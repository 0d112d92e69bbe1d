import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hasWaitingEvents } from './fan-out.ts';

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
/** Events of one project, whatever they are: 2.5 GB at most. */
const maxWaiting = 10_000;

/**
 * Keeps an event, when anything subscribes to it, in the caller's transaction. The fan-out is to be woken after it.
 * @throws {ServiceError} `payload_too_large`, `queue_full`
 */
export const emitCustomEvent = async (
  db: Queryable,
  projectId: string,
  { name, data, depth }: CustomEvent,
): Promise<void> => {
  if (Buffer.byteLength(data) > maxCustomEventBytes)
    throw new ServiceError('payload_too_large', `The data of an event have at most ${maxCustomEventBytes} bytes.`);
  if (await hasWaitingEvents(db, projectId, maxWaiting))
    throw new ServiceError('queue_full', 'Too many events of this project are waiting. Nothing was emitted.', {
      hint: 'Try again when some have been passed on.',
      headers: { 'Retry-After': '5' },
    });
  await db.query(
    'insert into outbox_events (project_id, event, data, depth) values ($1, $2, $3, $4)',
    [projectId, name, data, depth],
    'emit-custom-event',
  );
};
