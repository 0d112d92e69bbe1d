import { liveTopics, type ProjectDigest, projectDigest } from '#domain/live/digest.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { Subscriber } from '#queues/signals.ts';
import type { Deps } from '#api/deps.ts';
import type { RawReply } from '#api/endpoint.ts';
import { type ListenerOf, listen } from './job-events.ts';
import { type EventStream, eventText } from './sse.ts';

/** One statement for all listeners of a project; nobody listens: none. */
const everyMs = 2000;

type Topic = (typeof liveTopics)[number] | 'schema';

interface Hub {
  readonly listeners: Set<(topics: readonly Topic[], id: string) => void>;
  /** Null until it was read first. */
  digest: ProjectDigest | null;
  readonly poller: Poller;
}

interface Hubs {
  readonly byProject: Map<string, Hub>;
}

const hubsBySubscriber = new WeakMap<Subscriber, Hubs>();

/** The id of an event is the state that it leads to: a client that comes back is told what changed meanwhile. */
export const stateOf = (digest: ProjectDigest): string => liveTopics.map((topic) => digest[topic]).join('.');

const changedSince = (digest: ProjectDigest, id: string): Topic[] => {
  const before = id.split('.');
  return liveTopics.filter((topic, place) => digest[topic] !== before[place]);
};

const notify = (hub: Hub, topics: readonly Topic[]): void => {
  if (hub.digest === null || topics.length === 0) return;
  const id = stateOf(hub.digest);
  for (const listener of hub.listeners) listener(topics, id);
};

const round = async (deps: Deps, projectId: string, hub: () => Hub): Promise<void> => {
  const digest = await projectDigest(deps.db, projectId);
  const { digest: before } = hub();
  hub().digest = digest;
  notify(hub(), before === null ? [] : changedSince(digest, stateOf(before)));
};

const openHub = (deps: Deps, projectId: string): Hub => {
  const poller = startPoller(() => round(deps, projectId, () => hub), {
    everyMs,
    firstInMs: 0,
    onFailure: (error) => deps.log.warn({ err: error }, 'the changes of a project could not be read'),
  });
  const hub: Hub = { listeners: new Set(), digest: null, poller };
  return hub;
};

const hubsOf = (deps: Deps): Hubs => {
  const known = hubsBySubscriber.get(deps.subscriber);
  if (known !== undefined) return known;
  const hubs: Hubs = { byProject: new Map() };
  hubsBySubscriber.set(deps.subscriber, hubs);
  // Without Redis nobody hears of a schema; a client that comes back is told that it may have changed.
  deps.subscriber
    .onNotice(({ about, projectId }) => {
      const hub = hubs.byProject.get(projectId);
      if (about === 'schema' && hub !== undefined) notify(hub, ['schema']);
    })
    .catch(() => undefined);
  return hubs;
};

const textOf = (event: string, topics: readonly Topic[], id: string): string =>
  `id: ${id}\n${eventText(event, { topics })}`;

const begin = async (
  deps: Deps,
  { projectId }: ListenerOf,
  stream: EventStream,
  lastEventId: string,
): Promise<void> => {
  const { byProject } = hubsOf(deps);
  const hub = byProject.get(projectId) ?? openHub(deps, projectId);
  byProject.set(projectId, hub);
  const listener: Parameters<Hub['listeners']['add']>[0] = (topics, id) =>
    stream.sendText(textOf('changed', topics, id));
  hub.listeners.add(listener);
  stream.body.once('close', () => {
    hub.listeners.delete(listener);
    if (hub.listeners.size > 0 || byProject.get(projectId) !== hub) return;
    byProject.delete(projectId);
    void hub.poller.stop();
  });
  await hub.poller.idle();
  const { digest } = hub;
  // While Postgres is away nothing is known; a later round tells what changed since then.
  if (digest === null) return;
  const isBack = lastEventId !== '';
  const topics: Topic[] = isBack ? ['schema', ...changedSince(digest, lastEventId)] : [];
  stream.sendText(textOf(isBack ? 'changed' : 'ready', topics, stateOf(digest)));
};

/**
 * The changes of a project as server-sent events: `ready` at first, then `changed` with the topics (jobs,
 * invocations, deliveries, schema) whose pages are to be read again. With a `Last-Event-ID` the first event says what
 * changed meanwhile.
 * @throws {ServiceError} `rate_limited`
 */
export const projectLive = (
  deps: Deps,
  who: ListenerOf,
  lastEventId: string | string[] | undefined,
): Promise<RawReply> =>
  listen(deps, who, (_followed, stream) =>
    begin(deps, who, stream, typeof lastEventId === 'string' ? lastEventId : ''),
  );
