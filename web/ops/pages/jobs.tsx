import { useQuery } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { type Filters, useFilters } from '../../dashboard/client/filters.ts';
import { fieldOf } from '../../dashboard/client/form.ts';
import { Failure } from '../../dashboard/components/failure.tsx';
import { call } from '../client/api.ts';
import { type JobFilter, jobFilterOf, localTime, statuses, utcTime } from '../client/job-filter.ts';
import { useJobTypes } from '../client/session.ts';
import { Choice, TextField, TypeChoice } from '../components/fields.tsx';
import { Heading } from '../components/heading.tsx';
import { JobTable, ListPager, pageSize } from '../components/job-table.tsx';
import { BulkButtons } from './bulk.tsx';

const texts = ['project', 'function', 'type', 'status', 'error_code', 'error', 'request_id', 'id'] as const;
const times = ['since', 'until'] as const;

interface FilterFormProps {
  readonly filters: Filters;
  readonly filter: JobFilter;
  readonly refresh: () => void;
}

const FilterForm = ({ filters, filter, refresh }: FilterFormProps) => {
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const before = globalThis.location.search;
    filters.set({
      ...Object.fromEntries(texts.map((name) => [name, fieldOf(form, name).trim()])),
      ...Object.fromEntries(times.map((name) => [name, utcTime(fieldOf(form, name))])),
      project_id: '',
    });
    if (globalThis.location.search === before) refresh();
  };
  return (
    <form className="row filters" role="search" aria-label="Jobs" onSubmit={submit} key={JSON.stringify(filter)}>
      <TextField
        name="project"
        label="Project"
        value={filter.project ?? ''}
        size={18}
        placeholder="name, slug, ref or id"
      />
      <TextField
        name="function"
        label="Function"
        value={filter.function ?? ''}
        size={18}
        placeholder="name, slug or id"
      />
      <TypeChoice value={filter.type ?? ''} />
      <Choice name="status" label="Status" options={statuses} value={filter.status ?? ''} />
      <TextField name="error_code" label="Error code" value={filter.error_code ?? ''} size={12} />
      <TextField name="error" label="Error text" value={filter.error ?? ''} size={16} placeholder="a part of it" />
      <TextField name="request_id" label="Request id" value={filter.request_id ?? ''} size={16} />
      <TextField name="since" label="Accepted from" type="datetime-local" value={localTime(filter.since ?? '')} />
      <TextField name="until" label="Accepted before" type="datetime-local" value={localTime(filter.until ?? '')} />
      <TextField name="id" label="Job id" value={filter.id ?? ''} size={16} />
      <button type="submit" className="primary">
        Search
      </button>
      <button type="button" onClick={refresh}>
        Refresh
      </button>
    </form>
  );
};

/** Finds jobs of all projects, and changes those that were found. */
export const JobsPage = () => {
  const filters = useFilters();
  const filter = jobFilterOf(filters, useJobTypes());
  const jobs = useQuery({
    queryKey: ['jobs', filter, filters.offset],
    queryFn: () => call('GET /ops/api/jobs', { query: { ...filter, limit: pageSize, offset: filters.offset } }),
    placeholderData: (present) => present,
  });
  return (
    <>
      <Heading title="Jobs" />
      <FilterForm filters={filters} filter={filter} refresh={() => void jobs.refetch()} />
      <BulkButtons key={JSON.stringify(filter)} filter={filter} refresh={jobs.refetch} />
      {jobs.error && <Failure error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.data?.jobs.length === 0 && <p className="empty">No job is like that.</p>}
      {jobs.data !== undefined && jobs.data.jobs.length > 0 && (
        <JobTable caption="Jobs, newest first" jobs={jobs.data.jobs} />
      )}
      {jobs.data && (
        <ListPager label="jobs" filters={filters} total={jobs.data.total} isExact={jobs.data.total_is_exact} />
      )}
    </>
  );
};
