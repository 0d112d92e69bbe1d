import { type Query, type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';

/*
 * All tabs share one event stream of the open project, because a browser opens at most six connections to an origin.
 * The tab that holds a lock reads the stream and broadcasts its events; when it is closed, another tab gets the lock.
 */

/** The first parts of the query keys that are read again; those with a project have its id as their second part. */
const keysOf: Readonly<Record<string, { readonly ofProject: readonly string[]; readonly others: readonly string[] }>> =
  {
    jobs: { ofProject: ['jobs', 'queue', 'schedules'], others: ['job'] },
    invocations: { ofProject: ['logs'], others: ['invocations', 'invocation'] },
    deliveries: { ofProject: ['deliveries', 'webhooks', 'logs'], others: ['delivery', 'webhook'] },
    schema: { ofProject: ['schema'], others: [] },
  };

/** A list of which somebody has opened further pages stays as it is. */
const isOnePage = ({ state: { data } }: Query): boolean =>
  !(typeof data === 'object' && data !== null && 'pages' in data && Array.isArray(data.pages) && data.pages.length > 1);

/** Reads again what is shown; what is not shown, or stands in a tab that nobody sees, is read when it is looked at. */
const refresh = (queries: QueryClient, projectId: string, topics: readonly string[]): void => {
  const refetchType = document.visibilityState === 'visible' ? 'active' : 'none';
  const keys = topics.flatMap((topic) => {
    const { ofProject = [], others = [] } = keysOf[topic] ?? {};
    return [...ofProject.map((name) => [name, projectId]), ...others.map((name) => [name])];
  });
  for (const queryKey of keys) void queries.invalidateQueries({ queryKey, refetchType, predicate: isOnePage });
};

/** Whether changes come by themselves just now. Where they do not, pages ask now and then. */
const state = { isOn: false, listeners: new Set<() => void>() };

const setOn = (isOn: boolean): void => {
  if (state.isOn === isOn) return;
  state.isOn = isOn;
  for (const listener of state.listeners) listener();
};

const subscribe = (listener: () => void): (() => void) => {
  state.listeners.add(listener);
  return () => state.listeners.delete(listener);
};

/** How often a page asks again by itself: never while changes are reported, and else in so many ms. */
export const usePace = (ms: number): number | false => (useSyncExternalStore(subscribe, () => state.isOn) ? false : ms);

type Message = { readonly topics: readonly string[] } | { readonly isOn: boolean } | { readonly ask: true };

const retryMs = 10_000;

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });

/**
 * One connection, which the browser makes again by itself, saying which event was its last. It gives up on an answer such as
 * 503: then this resolves.
 */
const connect = (
  projectId: string,
  signal: AbortSignal,
  report: (topics: readonly string[] | null) => void,
): Promise<void> =>
  new Promise((resolve) => {
    const source = new EventSource(`/projects/${encodeURIComponent(projectId)}/live`);
    source.addEventListener('ready', () => report([]));
    source.addEventListener('changed', ({ data }: MessageEvent<string>) =>
      report((JSON.parse(data) as { topics: readonly string[] }).topics),
    );
    source.addEventListener('error', () => {
      report(null);
      if (source.readyState === EventSource.CLOSED) resolve();
    });
    signal.addEventListener('abort', () => {
      source.close();
      resolve();
    });
  });

/** Holds the stream until it is aborted. */
const hold = async (projectId: string, signal: AbortSignal, broadcast: (message: Message) => void): Promise<void> => {
  let isLost = false;
  while (!signal.aborted) {
    // oxlint-disable-next-line no-await-in-loop -- one connection at a time
    await connect(projectId, signal, (topics) => {
      if (topics === null) return broadcast({ isOn: false });
      broadcast({ isOn: true });
      // A new connection does not know what changed since the last one.
      broadcast({ topics: isLost ? Object.keys(keysOf) : topics });
      isLost = false;
    });
    isLost = true;
    // oxlint-disable-next-line no-await-in-loop -- as above
    await pause(retryMs, signal);
  }
};

const follow = (queries: QueryClient, projectId: string): (() => void) => {
  // Browsers have locks in a secure context only; elsewhere pages ask now and then.
  if (!('locks' in navigator)) return () => undefined;
  const name = `plinth live ${projectId}`;
  const channel = new BroadcastChannel(name);
  // A channel is of one origin; the rule takes it for a window.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  const send = (message: Message): void => channel.postMessage(message);
  const leaving = new AbortController();
  const take = (message: Message): void => {
    if ('topics' in message) refresh(queries, projectId, message.topics);
    if ('isOn' in message) setOn(message.isOn);
  };
  let holds = false;
  channel.addEventListener('message', ({ data }: MessageEvent<Message>) => {
    if ('ask' in data) {
      if (holds) send({ isOn: state.isOn });
    } else take(data);
  });
  const broadcast = (message: Message): void => {
    take(message);
    send(message);
  };
  // A tab that comes later does not know whether the stream is there.
  send({ ask: true });
  navigator.locks
    .request(name, { signal: leaving.signal }, () => {
      holds = true;
      return hold(projectId, leaving.signal, broadcast);
    })
    .catch(() => undefined);
  return () => {
    leaving.abort();
    channel.close();
    setOn(false);
  };
};

/** Keeps what is shown of the project as it is, as long as the page is open. */
export const useLive = (projectId: string): void => {
  const queries = useQueryClient();
  useEffect(() => follow(queries, projectId), [queries, projectId]);
};
