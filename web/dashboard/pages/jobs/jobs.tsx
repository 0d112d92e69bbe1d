import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { type Filters, oneOf, useFilters } from '../../client/filters.ts';
import { fieldOf } from '../../client/form.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { Time } from '../../components/time.tsx';
import { type BulkFilter, BulkJobs } from './bulk.tsx';
import { JobDetail } from './job.tsx';
import { Queue } from './queue.tsx';
import {
  type JobQuery,
  type JobStatus,
  type JobType,
  open,
  retried,
  spanText,
  statusClass,
  statusTexts,
  statuses,
  typeText,
  types,
  waitText,
} from './words.ts';
import { useSearch } from '../../client/search.ts';

const limit = 50;
const hourMs = 3_600_000;

/** Times back from now, for the filter by age. */
const ranges = { '1h': hourMs, '24h': 24 * hourMs, '7d': 168 * hourMs, '30d': 720 * hourMs } as const;
type Range = keyof typeof ranges;
const rangeTexts: Readonly<Record<Range, string>> = {
  '1h': 'last hour',
  '24h': 'last 24 hours',
  '7d': 'last 7 days',
  '30d': 'last 30 days',
};

/** Rounded to the minute, so that the same view asks the same question. */
const sinceOf = (range: Range): string =>
  new Date(Math.floor((Date.now() - ranges[range]) / 60_000) * 60_000).toISOString();

const rangeOf = (filters: Filters): Range | undefined => oneOf(Object.keys(ranges) as Range[], filters.get('range'));

interface JobFilters {
  readonly status: JobStatus | undefined;
  readonly type: JobType | undefined;
  readonly range: Range | undefined;
  readonly query: Omit<JobQuery, 'limit' | 'offset'>;
}

const texts = ['q', 'function_id', 'request_id', 'key'] as const;

const filtersOf = (filters: Filters): JobFilters => {
  const status = oneOf(statuses, filters.get('status'));
  const type = oneOf(Object.keys(types) as JobType[], filters.get('type'));
  const range = rangeOf(filters);
  const given = texts.map((name) => [name, filters.get(name)] as const).filter(([, value]) => value !== '');
  return {
    status,
    type,
    range,
    query: {
      ...Object.fromEntries(given),
      ...(status && { status }),
      ...(type && { type }),
      ...(range && { since: sinceOf(range) }),
    },
  };
};

/** The number of jobs in each status, each of which leads to them. */
const States = ({ filters, type, status }: { readonly filters: Filters } & Pick<JobFilters, 'type' | 'status'>) => {
  const { project } = useProject();
  const [here] = useLocation();
  const [search] = useSearch();
  const range = rangeOf(filters) ?? '24h';
  const pace = usePace(10_000);
  const counts = useQuery({
    queryKey: ['jobs', project.id, 'counts', type, range],
    queryFn: () =>
      call('GET /projects/{project_id}/jobs/counts', {
        params: { project_id: project.id },
        query: { ...(type && { type }), since: sinceOf(range) },
      }),
    refetchInterval: pace,
  });
  const addressOf = (each: JobStatus): string => {
    const next = new URLSearchParams(search);
    next.delete('offset');
    if (each === status) next.delete('status');
    else next.set('status', each);
    return `${here}?${next.toString()}`;
  };
  if (counts.data === undefined && counts.error)
    return <Failure error={counts.error} onRetry={() => void counts.refetch()} />;
  return (
    <>
      <ul className="states" aria-label="Jobs by status">
        {statuses.map((each) => (
          <li key={each}>
            <Link
              href={addressOf(each)}
              replace
              aria-current={each === status ? 'true' : undefined}
              title={statusTexts[each]}
            >
              <strong className={(counts.data?.counts[each] ?? 0) > 0 ? statusClass(each) : ''}>
                {counts.data?.counts[each]?.toLocaleString('en') ?? '–'}
              </strong>
              {each === 'dead' ? 'dead letters' : each}
            </Link>
          </li>
        ))}
      </ul>
      <p className="muted">
        Ended jobs are those of the {rangeTexts[range]}
        {counts.data?.is_capped === true && ', counted among the latest 100,000'}.
      </p>
    </>
  );
};

const FilterForm = ({ filters, status, type, range }: { readonly filters: Filters } & JobFilters) => {
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    filters.set({ q: fieldOf(form, 'q').trim(), request_id: fieldOf(form, 'request_id').trim() });
  };
  return (
    <form className="row" onSubmit={submit} key={`${filters.get('q')} ${filters.get('request_id')}`}>
      <label className="inline">
        Kind
        <select value={type ?? ''} onChange={({ target }) => filters.set({ type: target.value })}>
          <option value="">any</option>
          {Object.entries(types).map(([each, text]) => (
            <option key={each} value={each}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label className="inline">
        Status
        <select value={status ?? ''} onChange={({ target }) => filters.set({ status: target.value })}>
          <option value="">any</option>
          {statuses.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label className="inline">
        Accepted
        <select value={range ?? ''} onChange={({ target }) => filters.set({ range: target.value })}>
          <option value="">at any time</option>
          {Object.entries(rangeTexts).map(([each, text]) => (
            <option key={each} value={each}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label className="inline">
        Error
        <input name="q" defaultValue={filters.get('q')} maxLength={200} placeholder="part of its text" />
      </label>
      <label className="inline">
        Request
        <input name="request_id" defaultValue={filters.get('request_id')} maxLength={64} />
      </label>
      <button type="submit">Search</button>
    </form>
  );
};

/** The filter of a change of many jobs, and how it reads. */
const bulkOf = ({ query: { q, ...rest }, status, type, range }: JobFilters): { filter: BulkFilter; words: string } => ({
  filter: { ...rest, ...(q && { error: q }) } as BulkFilter,
  words: [
    `Jobs${status === undefined ? '' : ` that are ${status}`}`,
    type === undefined ? '' : `of the kind “${types[type]}”`,
    range === undefined ? '' : `of the ${rangeTexts[range]}`,
    q === undefined ? '' : `with “${q}” in their error`,
    rest.request_id === undefined ? '' : `of the request ${rest.request_id}`,
    rest.function_id === undefined ? '' : 'of one function',
  ]
    .filter((part) => part !== '')
    .join(' '),
});

const Actions = (chosen: JobFilters) => {
  const [action, setAction] = useState<'retry' | 'cancel' | null>(null);
  const { status, query } = chosen;
  const isFiltered = Object.keys(query).length > 0;
  if (!isFiltered) return <p className="muted">Choose a filter to run many jobs again, or to cancel them.</p>;
  return (
    <p className="row">
      {(status === undefined || retried.includes(status)) && (
        <button type="button" onClick={() => setAction('retry')}>
          Run all of these again…
        </button>
      )}
      {(status === undefined || open.includes(status)) && (
        <button type="button" onClick={() => setAction('cancel')}>
          Cancel all of these…
        </button>
      )}
      {action !== null && <BulkJobs action={action} {...bulkOf(chosen)} onClose={() => setAction(null)} />}
    </p>
  );
};

const JobList = () => {
  const { project, role } = useProject();
  const filters = useFilters();
  const chosen = filtersOf(filters);
  const pace = usePace(10_000);
  const jobs = useQuery({
    queryKey: ['jobs', project.id, chosen.query, filters.offset],
    queryFn: () =>
      call('GET /projects/{project_id}/jobs', {
        params: { project_id: project.id },
        query: { ...chosen.query, limit, offset: filters.offset },
      }),
    placeholderData: (present) => present,
    refetchInterval: pace,
  });
  return (
    <>
      <States filters={filters} type={chosen.type} status={chosen.status} />
      <FilterForm filters={filters} {...chosen} />
      {atLeast(role, 'developer') && <Actions {...chosen} />}
      {jobs.error && <Failure error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.data?.total === 0 && <p className="empty">There is no such job.</p>}
      {jobs.data !== undefined && jobs.data.total > 0 && (
        <Table
          caption="Jobs"
          isCaptionHidden
          columns={['Accepted', 'Kind', 'Status', 'Attempt', 'Took', 'Why it waits, or its error']}
        >
          {jobs.data.jobs.map((job) => (
            <tr key={job.id}>
              <td>
                <Link href={`/projects/${project.id}/jobs/${job.id}`}>
                  <Time at={job.created_at} />
                </Link>
              </td>
              <td>{typeText(job.type)}</td>
              <td className={statusClass(job.status)}>{job.status}</td>
              <td>
                {job.attempt} of {job.max_attempts}
              </td>
              <td>
                {job.finished_at === null || job.started_at === null
                  ? '–'
                  : spanText(Date.parse(job.finished_at) - Date.parse(job.started_at))}
              </td>
              <td className="one-line">{waitText(job) ?? job.error?.message}</td>
            </tr>
          ))}
        </Table>
      )}
      <Pager offset={filters.offset} limit={limit} total={jobs.data?.total ?? 0} label="jobs" onMove={filters.move} />
    </>
  );
};

const tabs = { list: 'Jobs', queue: 'Queue' } as const;

const JobsOverview = () => {
  const tab = useTab(tabs);
  return (
    <>
      <h1>Jobs</h1>
      <Tabs label="Parts of the jobs" tabs={tabs} current={tab} />
      {tab === 'list' ? <JobList /> : <Queue />}
    </>
  );
};

/** The jobs of the project, or the one that the address names. */
export const JobsPage = ({ id }: { readonly id: string | undefined }) =>
  id === undefined ? <JobsOverview /> : <JobDetail key={id} id={id} />;
