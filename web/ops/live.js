/**
 * The snapshots of `/ops/api/live`, for whoever listens. Only while the page can be seen: an unseen page asks for
 * nothing.
 */
export const createLive = () => {
  const listeners = new Set();
  const watchers = new Set();
  let source = null;
  let latest = null;
  let state = 'connecting';
  let again = 0;

  const become = (next) => {
    state = next;
    for (const watch of watchers) watch(state, latest);
  };

  const close = () => {
    source?.close();
    source = null;
    clearTimeout(again);
  };

  const open = () => {
    close();
    become('connecting');
    source = new EventSource('/ops/api/live');
    source.addEventListener('snapshot', (event) => {
      latest = JSON.parse(event.data);
      become('live');
      for (const listen of listeners) listen(latest);
    });
    source.addEventListener('trouble', () => become('trouble'));
    source.addEventListener('error', () => {
      become('lost');
      // An answer other than 200 closes it for good.
      if (source?.readyState === EventSource.CLOSED) again = setTimeout(open, 2000);
    });
  };

  const follow = () => {
    if (document.hidden) close();
    else open();
  };

  return {
    start: () => {
      document.addEventListener('visibilitychange', follow);
      follow();
    },
    stop: () => {
      document.removeEventListener('visibilitychange', follow);
      close();
      latest = null;
    },
    /** Calls with each snapshot, the latest at once. Returns what ends it. */
    listen: (listener) => {
      listeners.add(listener);
      if (latest !== null) listener(latest);
      return () => listeners.delete(listener);
    },
    /** Calls with `live`, `connecting`, `lost` or `trouble`, and the latest snapshot. */
    watch: (watcher) => void watchers.add(watcher),
  };
};
