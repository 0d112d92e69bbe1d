import { useQueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useState } from 'react';
import type { Queue, Worker } from './api.ts';

interface Snapshot {
  readonly redis: boolean;
  readonly queues: readonly Queue[];
  readonly workers: readonly Worker[];
}

interface Live {
  /** `lost`: the API cannot be reached; `trouble`: it has no database. */
  readonly state: 'connecting' | 'live' | 'lost' | 'trouble';
  /** The latest one; null until the first. */
  readonly snapshot: Snapshot | null;
}

const begin: Live = { state: 'connecting', snapshot: null };

export const LiveContext = createContext<Live>(begin);

/** The latest snapshot, a second old at most. */
export const useLive = (): Live => useContext(LiveContext);

const retryMs = 2000;

/** Follows the stream while the page can be seen: an unseen page asks for nothing. */
const follow = (report: (change: Partial<Live>) => void, onRefused: () => void): (() => void) => {
  let source: EventSource | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  const close = (): void => {
    source?.close();
    source = undefined;
    clearTimeout(again);
  };
  const open = (): void => {
    close();
    report({ state: 'connecting' });
    const stream = new EventSource('/ops/api/live');
    source = stream;
    stream.addEventListener('snapshot', ({ data }: MessageEvent<string>) =>
      report({ state: 'live', snapshot: JSON.parse(data) as Snapshot }),
    );
    stream.addEventListener('trouble', () => report({ state: 'trouble' }));
    stream.addEventListener('error', () => {
      report({ state: 'lost' });
      if (stream.readyState !== EventSource.CLOSED) return;
      // An answer other than 200 closes it for good.
      onRefused();
      again = setTimeout(open, retryMs);
    });
  };
  const followVisibility = (): void => (document.hidden ? close() : open());
  document.addEventListener('visibilitychange', followVisibility);
  followVisibility();
  return () => {
    document.removeEventListener('visibilitychange', followVisibility);
    close();
  };
};

/** The stream of snapshots, for as long as the page is open. */
export const useLiveStream = (): Live => {
  const queries = useQueryClient();
  const [live, setLive] = useState(begin);
  useEffect(
    () =>
      follow(
        (change) => setLive((present) => ({ ...present, ...change })),
        // The session may have ended: the query that needs it finds out.
        () => void queries.invalidateQueries({ queryKey: ['session'] }),
      ),
    [queries],
  );
  return live;
};
