import { type Query, type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';
import { untilReachable } from './reach.ts';
import { stream } from './stream.ts';

/*
 * All tabs share one event stream of the open project, because a browser opens at most six connections to an origin.
 * The tab that holds a lock reads the stream and broadcasts its events; when it is closed, another tab gets the lock.
 */

/** The first parts of the query keys that are read again; those with a project have its id as their second part. */
const keysOf: Readonly<Record<string, { readonly ofProject: readonly string[]; readonly others: readonly string[] }>> =
  {
    jobs: { ofProject: ['jobs', 'queue', 'schedules', 'mails'], others: ['job'] },
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

/** Holds the stream until it is aborted. */
const hold = (projectId: string, signal: AbortSignal, broadcast: (message: Message) => void): Promise<void> => {
  let isFirst = true;
  return stream(`/projects/${encodeURIComponent(projectId)}/live`, signal, (source) => {
    // A new connection does not know what changed since the last one.
    let isLost = !isFirst;
    isFirst = false;
    const report = (topics: readonly string[]): void => {
      broadcast({ isOn: true });
      broadcast({ topics: isLost ? Object.keys(keysOf) : topics });
      isLost = false;
    };
    source.addEventListener('ready', () => report([]));
    source.addEventListener('changed', ({ data }: MessageEvent<string>) =>
      report((JSON.parse(data) as { topics: readonly string[] }).topics),
    );
    source.addEventListener('error', () => broadcast({ isOn: false }));
  });
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
    if (!('isOn' in message)) return;
    setOn(message.isOn);
    // Tabs that share the stream of another one have to find out by themselves.
    if (!message.isOn) void untilReachable();
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
