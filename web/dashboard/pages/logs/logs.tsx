import { useInfiniteQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { type Filters, oneOf, useFilters } from '../../client/filters.ts';
import { fieldOf } from '../../client/form.ts';
import { usePace } from '../../client/live.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';

type Query = NonNullable<Operations['GET /projects/{project_id}/logs']['query']>;
type Line = Operations['GET /projects/{project_id}/logs']['answer']['logs'][number];
type Source = Line['source'];

const levels = ['debug', 'info', 'warn', 'error'] as const;
const sources: Readonly<Record<Source, string>> = {
  function: 'functions',
  job: 'ends of jobs',
  webhook: 'deliveries of webhooks',
  mail: 'mails',
  auth: 'sign-ins',
  data: 'data API',
  storage: 'storage',
  ai: 'AI',
  api: 'other API calls',
};
const allSources = Object.keys(sources) as Source[];
/** Sources that are read together: one request has the lines of all of them, in order. */
const rowSources: readonly Source[] = ['mail', 'auth', 'data', 'storage', 'ai', 'api'];

/** A part of the log that is read by itself. */
type Feed = 'function' | 'job' | 'webhook' | 'rows';
const allFeeds: readonly Feed[] = ['function', 'job', 'webhook', 'rows'];

const feedOf = (source: Source): Feed =>
  source === 'function' || source === 'job' || source === 'webhook' ? source : 'rows';

/** The sources of a feed that are wanted. */
const sourceText = (feed: Feed, chosen: Source | undefined): string => {
  if (feed !== 'rows') return feed;
  return chosen !== undefined && feedOf(chosen) === 'rows' ? chosen : rowSources.join(',');
};
const pageSize = 100;
const refreshMs = 5000;

/** The address of a line, the same for everybody who looks at it. */
const keyOf = (line: Line): string =>
  [line.source, line.id ?? line.invocation_id ?? line.job_id ?? line.delivery_id ?? '', line.line ?? 0].join('.');

type Filter = Pick<Query, 'q' | 'level' | 'request_id'>;

/** One feed, page by page. A page that is shown is read again while it is the only one and nobody paused it. */
interface FeedState {
  /** As the API takes it. */
  readonly source: string;
  readonly isOn: boolean;
  readonly isPaused: boolean;
}

const useFeed = (filter: Filter, { source, isOn, isPaused }: FeedState) => {
  const { project } = useProject();
  const livePace = usePace(refreshMs);
  // The pages are told of jobs and deliveries alone.
  const pace = source === 'job' || source === 'webhook' ? livePace : refreshMs;
  return useInfiniteQuery({
    queryKey: ['logs', project.id, source, filter],
    enabled: isOn,
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      call('GET /projects/{project_id}/logs', {
        params: { project_id: project.id },
        query: { ...filter, source, limit: pageSize, cursor: pageParam },
      }),
    getNextPageParam: ({ next }) => next ?? undefined,
    placeholderData: (present) => present,
    refetchInterval: (query) => (!isPaused && query.state.data?.pages.length === 1 ? pace : false),
  });
};

type FeedLog = ReturnType<typeof useFeed>;

const linesOf = ({ data }: FeedLog): Line[] => (data?.pages ?? []).flatMap((page) => page.logs);

/**
 * The lines of several sources in the order of their time. Where a source has more to come, nothing is shown that is
 * older than its oldest line: lines of it would belong in between.
 */
const merged = (logs: readonly FeedLog[]): Line[] => {
  const bounds = logs.map((log) => (log.hasNextPage ? (linesOf(log).at(-1)?.ts ?? '') : ''));
  const since = bounds.reduce((latest, ts) => (ts > latest ? ts : latest), '');
  return logs
    .flatMap(linesOf)
    .filter(({ ts }) => ts >= since)
    .toSorted((a, b) => (a.ts === b.ts ? (a.line ?? 0) - (b.line ?? 0) : a.ts < b.ts ? -1 : 1));
};

/** The page about what a line says; null where there is none. */
const placeOf = (base: string, line: Line): string | null => {
  if (line.email_id !== undefined) return `${base}/mail/sent/${line.email_id}`;
  if (line.ai_call_id !== undefined) return `${base}/ai/calls/${line.ai_call_id}`;
  if (line.id !== undefined) return null;
  if (line.source === 'job') return `${base}/jobs/${line.job_id ?? ''}`;
  if (line.source === 'webhook')
    return `${base}/webhooks/${line.webhook_id ?? ''}/deliveries/${line.delivery_id ?? ''}`;
  return `${base}/functions/${line.function_id ?? ''}?tab=runs&run=${line.invocation_id ?? ''}`;
};

const LineRow = ({ line, isChosen }: { readonly line: Line; readonly isChosen: boolean }) => {
  const { project } = useProject();
  const [here] = useLocation();
  const base = `/projects/${project.id}`;
  const key = keyOf(line);
  const place = placeOf(base, line);
  const search = new URLSearchParams(globalThis.location.search);
  search.set('line', key);
  return (
    <p id={key} className={`${line.level} ${isChosen ? 'chosen' : ''}`}>
      <Link href={`${here}?${search.toString()}`} title="A link to this line" replace>
        <time dateTime={line.ts}>{new Date(line.ts).toLocaleString([], { hour12: false })}</time>
      </Link>{' '}
      <span className="level">{line.level}</span>{' '}
      {place === null ? (
        <span className="source">{line.source}</span>
      ) : (
        <Link href={place} className="source">
          {line.source}
        </Link>
      )}{' '}
      <span className="message">{line.message}</span>
      {line.fields !== null && <code> {JSON.stringify(line.fields)}</code>}
      {line.request_id !== null && (
        <Link
          href={`${here}?request_id=${encodeURIComponent(line.request_id)}`}
          className="muted"
          title={line.request_id}
        >
          {' '}
          its request
        </Link>
      )}
    </p>
  );
};

const FilterForm = ({ filters, source }: { readonly filters: Filters; readonly source: Source | undefined }) => {
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    filters.set({ q: fieldOf(form, 'q').trim(), request_id: fieldOf(form, 'request_id').trim() });
  };
  return (
    <form className="row" onSubmit={submit} key={`${filters.get('q')} ${filters.get('request_id')}`}>
      <label className="inline">
        Source
        <select value={source ?? ''} onChange={({ target }) => filters.set({ source: target.value })}>
          <option value="">all</option>
          {allSources.map((each) => (
            <option key={each} value={each}>
              {sources[each]}
            </option>
          ))}
        </select>
      </label>
      <label className="inline">
        Level
        <select value={filters.get('level')} onChange={({ target }) => filters.set({ level: target.value })}>
          <option value="">any</option>
          {levels.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label className="inline">
        Text
        <input name="q" defaultValue={filters.get('q')} maxLength={200} />
      </label>
      <label className="inline">
        Request
        <input name="request_id" defaultValue={filters.get('request_id')} maxLength={64} placeholder="id of an error" />
      </label>
      <button type="submit">Search</button>
    </form>
  );
};

/** The lines of all sources, as one stream. */
export const LogsPage = () => {
  const filters = useFilters();
  /** The lines that were there when the page was paused; null while it is not. */
  const [frozen, setFrozen] = useState<readonly Line[] | null>(null);
  const isPaused = frozen !== null;
  const source = oneOf(allSources, filters.get('source'));
  const level = oneOf(levels, filters.get('level'));
  const [q, requestId, chosen] = [filters.get('q'), filters.get('request_id'), filters.get('line')];
  const filter: Filter = {
    ...(q !== '' && { q }),
    ...(level && { level }),
    ...(requestId !== '' && { request_id: requestId }),
  };
  const isOn = (feed: Feed): boolean => source === undefined || feedOf(source) === feed;
  // A line that somebody was sent to stays where it is.
  const state = (feed: Feed): FeedState => ({
    source: sourceText(feed, source),
    isOn: isOn(feed),
    isPaused: isPaused || chosen !== '',
  });
  const all = {
    function: useFeed(filter, state('function')),
    job: useFeed(filter, state('job')),
    webhook: useFeed(filter, state('webhook')),
    rows: useFeed(filter, state('rows')),
  };
  const logs = allFeeds.filter(isOn).map((feed) => all[feed]);
  const present = merged(logs);
  const lines = frozen ?? present;
  const error = logs.find((log) => log.error)?.error;
  const retry = (): void => void Promise.all(logs.map((log) => log.refetch()));
  const hasLines = lines.length > 0;
  const question = JSON.stringify([filter, source]);
  // Another question is answered, paused or not.
  useEffect(() => setFrozen(null), [question]);
  useEffect(() => {
    if (chosen !== '' && hasLines)
      document.querySelector(`#${CSS.escape(chosen)}`)?.scrollIntoView({ block: 'center' });
  }, [chosen, hasLines]);
  return (
    <>
      <div className="row head">
        <h1>Logs</h1>
        <button type="button" aria-pressed={isPaused} onClick={() => setFrozen(isPaused ? null : present)}>
          {isPaused ? 'Go on' : 'Pause'}
        </button>
      </div>
      <FilterForm filters={filters} source={source} />
      {error && <Failure error={error} onRetry={retry} />}
      {logs.some((log) => log.hasNextPage) && (
        <button
          type="button"
          disabled={logs.some((log) => log.isFetchingNextPage)}
          onClick={() => void Promise.all(logs.filter((log) => log.hasNextPage).map((log) => log.fetchNextPage()))}
        >
          Earlier lines
        </button>
      )}
      {hasLines && (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
        <div role="log" aria-label="Logs of the project" className="log" tabIndex={0}>
          {lines.map((line) => (
            <LineRow key={keyOf(line)} line={line} isChosen={keyOf(line) === chosen} />
          ))}
        </div>
      )}
      {logs.every((log) => log.data !== undefined) && !hasLines && <p className="empty">No line matches.</p>}
    </>
  );
};
