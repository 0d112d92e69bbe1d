import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { maxDataBytes } from './message.ts';
import { sealSecret } from './secrets.ts';
import { type EventRow, type WebhookKind, type WebhookRow, filterColumns, markWebhookDeleted } from './store.ts';
import { withinPatterns } from './subscriptions.ts';
import type { OwnProject } from './webhooks.ts';

/*
 * Listeners: webhooks for the time of one connection (decision 098). Their deliveries take the way of all others, through
 * relay, fan-out, filter, rate and signature; the last step publishes them to the process that holds the connection.
 */

/** A person listens with one or two; each adds a delivery to every event of the project. */
const maxListeners = 5;
const ratePerSecond = 50;
/** Its process touches it more often. */
export const touchEveryMs = 15_000;
const lostAfterSeconds = 90;

/** The options of one listener. */
export interface ListenerOptions {
  readonly events: readonly string[];
  readonly filter: string | null;
  readonly secret: string;
}

/** A listener as its deliveries are signed. */
export type Listener = Pick<
  WebhookRow,
  | 'id'
  | 'kind'
  | 'url'
  | 'url_sealed'
  | 'secret_sealed'
  | 'previous_secret_sealed'
  | 'previous_secret_until'
  | 'send_secret'
>;

/**
 * Subscribes a new listener.
 * @throws {ServiceError} `plan_limit_exceeded` when the project has as many as it may
 */
export const insertListener = async (
  db: Queryable,
  { id: projectId, sealer }: OwnProject,
  { events, filter, secret }: ListenerOptions,
): Promise<Listener> => {
  await db.query('select from projects where id = $1 for no key update', [projectId]);
  const { total } = await one(
    db.query<{ total: number }>(
      `select count(*)::int as total from webhooks where project_id = $1 and kind = 'listener' and deleted_at is null`,
      [projectId],
    ),
  );
  if (total >= maxListeners) {
    throw new ServiceError('plan_limit_exceeded', `A project has at most ${maxListeners} listeners at a time.`, {
      hint: 'End another `plinth listen`; one that was cut off is gone after two minutes.',
    });
  }
  const kind: WebhookKind = 'listener';
  const listener: Listener = {
    id: newId(),
    kind,
    // There is no address: whoever holds the connection hands deliveries on.
    url: 'listener:',
    url_sealed: null,
    secret_sealed: Buffer.alloc(0),
    previous_secret_sealed: null,
    previous_secret_until: null,
    send_secret: false,
  };
  const sealed = sealSecret(sealer, listener.id, secret);
  await withinPatterns(db, { projectId, events }, async () => {
    await db.query(
      `insert into webhooks (id, project_id, kind, url, events, secret_sealed, rate_per_second, is_active,
         filter, filter_table, filter_other)
       values ($1, $2, $3, $4, $5, $6, $7, true, $8, $9::text::jsonpath, $10::text::jsonpath)`,
      [listener.id, projectId, kind, listener.url, events, sealed, ratePerSecond, ...filterColumns(filter)],
    );
    await db.query('insert into webhook_listeners (webhook_id) values ($1)', [listener.id]);
  });
  return { ...listener, secret_sealed: sealed };
};

/** Says that the connection of a listener is there. */
export const touchListener = async (db: Queryable, id: string): Promise<void> => {
  await db.query('update webhook_listeners set seen_at = now() where webhook_id = $1', [id]);
};

/** Nothing more is sent to it. */
export const removeListener = async (db: Queryable, id: string): Promise<void> => {
  await markWebhookDeleted(db, id);
  await db.query('delete from webhook_listeners where webhook_id = $1', [id]);
};

/** Removes listeners whose process died. @returns the projects whose subscriptions change */
export const removeLostListeners = async (db: Queryable, max: number): Promise<string[]> => {
  const rows = await db.query<{ project_id: string }>(
    `with lost as (
       delete from webhook_listeners where webhook_id in (
         select webhook_id from webhook_listeners where seen_at < now() - make_interval(secs => ${lostAfterSeconds})
         order by seen_at limit $1)
       returning webhook_id)
     update webhooks set deleted_at = now(), updated_at = now()
     where id in (select webhook_id from lost) and deleted_at is null returning project_id`,
    [max],
  );
  return [...new Set(rows.map(({ project_id: projectId }) => projectId))];
};

/** An event of the past, as a listener with those patterns is told of it. */
export interface PastEvent {
  readonly name: string;
  readonly event: EventRow;
  readonly isLarge: boolean;
}

/** At most so many events are looked through for those that fit. */
const maxSearched = 5000;

/** The last events of a project that fit the patterns, the oldest first. Events that no webhook got are not kept. */
export const lastEvents = async (
  db: Queryable,
  projectId: string,
  { events, count }: { readonly events: readonly string[]; readonly count: number },
): Promise<PastEvent[]> => {
  if (count === 0) return [];
  const rows = await db.query<Omit<EventRow, 'data'> & { data: string | null; name: string }>(
    `select e.id, e.project_id, e.event, e.created_at, event_name_for(e.event, $2) as name,
       case when octet_length(e.data::text) <= ${maxDataBytes} then e.data::text end as data
     from (select * from outbox_events where project_id = $1 and fanned_at is not null order by id desc
       limit ${maxSearched}) e
     where event_patterns(e.event) && $2::text[] and e.event not like 'test.%' order by e.id desc limit $3`,
    [projectId, events, count],
  );
  return rows
    .toReversed()
    .map(({ name, data, ...event }) => ({ name, event: { ...event, data: data ?? '' }, isLarge: data === null }));
};
