import { findProject } from '#domain/projects/store.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type Sealer, SecretError } from '#lib/secrets.ts';
import { partsOf } from './event-parts.ts';
import type { EventRow } from './types.ts';

/** The link to an event's data works that long. */
export const dataUrlHours = 24;

/** What a link may lead to: what stands under `data` in a delivery, and what stands under `old`. */
export const dataParts = ['data', 'old'] as const;
export type DataPart = (typeof dataParts)[number];

const about = (eventId: string): string => `event:${eventId}:data`;

export interface DataUrlDeps {
  /** The project's. */
  readonly sealer: Sealer;
  /** Of the platform, without a slash at the end. */
  readonly baseUrl: string;
}

/** Whose data a link leads to, and for whom: it ends with that webhook. */
export interface DataLink {
  readonly eventId: string;
  readonly webhookId: string;
}

/** A link to the data of an event that is too large for a delivery; it needs no credential, and works for 24 hours. */
export const dataUrlOf = (
  { sealer, baseUrl }: DataUrlDeps,
  { eventId, webhookId }: DataLink,
  now = Date.now(),
): string => {
  const content = `${now + dataUrlHours * 3_600_000} ${webhookId}`;
  const token = sealer.seal(about(eventId), content).toString('base64url');
  return `${baseUrl}/hooks/events/${eventId}/data?token=${token}`;
};

/** Null: the token is not of this event. */
const openToken = (sealer: Sealer, eventId: string, token: string): { expiry: number; webhookId: string } | null => {
  try {
    const [expiry = '', webhookId = ''] = sealer.open(about(eventId), Buffer.from(token, 'base64url')).split(' ');
    return { expiry: Number(expiry), webhookId };
  } catch (error) {
    if (error instanceof SecretError) return null;
    throw error;
  }
};

const isThere = async (db: Queryable, webhookId: string): Promise<boolean> =>
  (await db.query('select from webhooks where id = $1 and deleted_at is null', [webhookId])).length > 0;

/** What a link is asked for. */
export interface EventDataRequest {
  readonly eventId: string;
  readonly token: string;
  readonly part: DataPart;
}

/**
 * The data that a link of `dataUrlOf` leads to, as exact JSON text.
 * @throws {ServiceError} `not_found` when there is no such event, the token is not its own, or its webhook was deleted;
 * `expired`
 */
export const readEventData = async (
  { db, projects }: { readonly db: Queryable; readonly projects: Pick<Projects, 'sealer'> },
  { eventId, token, part }: EventDataRequest,
  now = Date.now(),
): Promise<string> => {
  const event = await maybeOne(
    db.query<{ project_id: string }>('select project_id from outbox_events where id = $1', [eventId]),
  );
  const project = event && (await findProject(db, event.project_id));
  if (project === undefined || project.deleted_at !== null) throw notFound('event');
  const opened = openToken(projects.sealer(project), eventId, token);
  if (opened === null || !(await isThere(db, opened.webhookId))) throw notFound('event');
  if (opened.expiry <= now) {
    throw new ServiceError('expired', `The link to this event's data worked for ${dataUrlHours} hours.`, {
      hint: 'Have the event delivered again: the delivery brings a new one.',
    });
  }
  // Read after the token was looked at: it can have megabytes.
  const row = await maybeOne(
    db.query<Pick<EventRow, 'event' | 'data'>>('select event, data::text as data from outbox_events where id = $1', [
      eventId,
    ]),
  );
  const text = row && partsOf(row)[part];
  if (text === undefined || text === null) throw notFound('data');
  return text;
};
