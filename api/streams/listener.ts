import { readFileSync } from 'node:fs';
import path from 'node:path';
import { actingAs, systemActor } from '#domain/audit/actor.ts';
import {
  type Listener,
  type ListenerOptions,
  insertListener,
  lastEvents,
  removeListener,
  touchEveryMs,
  touchListener,
} from '#domain/webhooks/listeners.ts';
import { makeListened } from '#domain/webhooks/message.ts';
import { applySubscriptions } from '#domain/webhooks/subscriptions.ts';
import type { InProject } from '#api/access.ts';
import type { Call } from '#api/call.ts';
import type { RawReply } from '#api/endpoint.ts';
import { listen } from './job-events.ts';
import type { EventStream } from './sse.ts';

const { version } = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../package.json'), 'utf8')) as {
  readonly version: string;
};

/** The options of a stream of deliveries. */
export interface ListenOptions extends ListenerOptions {
  /** How many past events come first. */
  readonly replay: number;
}

const subscribe = ({ deps, project }: Call<InProject>): Promise<void> =>
  applySubscriptions(deps, project.id).catch((error: unknown) => {
    // The workers do it soon.
    deps.log.debug({ err: error }, 'the subscriptions of a project were not set at once');
  });

/** Ends with the connection; what fails here, or whose process dies, is swept up. */
const endWith = (call: Call<InProject>, listener: Listener, stop: () => void): (() => void) => {
  const { deps } = call;
  const touch = setInterval(
    () => void touchListener(deps.db, listener.id).catch(() => undefined),
    touchEveryMs,
  ).unref();
  const end = async (): Promise<void> => {
    clearInterval(touch);
    stop();
    await deps.db.transaction((tx) => removeListener(tx, listener.id), systemActor);
    await subscribe(call);
  };
  return () =>
    void end().catch((error: unknown) =>
      deps.log.warn({ err: error }, 'a listener was not removed; the sweep does it'),
    );
};

const sendPast = async (
  call: Call<InProject>,
  listener: Listener,
  { events, replay }: ListenOptions,
  stream: EventStream,
): Promise<void> => {
  const { deps, project, baseUrl } = call;
  const sealer = deps.projects.sealer(project);
  for (const past of await lastEvents(deps.db, project.id, { events, count: replay })) {
    stream.sendText(makeListened({ ...past, webhook: listener, isPast: true }, { sealer, baseUrl, version }));
  }
};

const begin = async (call: Call<InProject>, options: ListenOptions, stream: EventStream): Promise<void> => {
  const { deps, project } = call;
  const own = { id: project.id, sealer: deps.projects.sealer(project) };
  const listener = await deps.db.transaction((tx) => insertListener(tx, own, options), actingAs(call.actor));
  const stop = await deps.subscriber
    .followDeliveries(listener.id, (text) => stream.sendText(text))
    .catch((error) => {
      endWith(call, listener, () => undefined)();
      throw error;
    });
  const end = endWith(call, listener, stop);
  if (stream.body.destroyed) return end();
  stream.body.once('close', end);
  await sendPast(call, listener, options, stream);
  await subscribe(call);
  stream.send('ready', { events: options.events });
};

/**
 * The deliveries of a temporary webhook, as server-sent events `delivery` with `{id, event, replayed, headers, body}`,
 * until the connection ends. `ready` comes after those of the past.
 * @throws {ServiceError} `plan_limit_exceeded`, `rate_limited`
 */
export const listenToDeliveries = (call: Call<InProject>, options: ListenOptions): Promise<RawReply> => {
  const who = { projectId: call.project.id, userId: call.user.id, signInId: call.signInId };
  return listen(call.deps, who, (_followed, stream) => begin(call, options, stream));
};
