import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useSearchParams } from 'wouter';
import { call } from '../../client/api.ts';
import { textOf } from '../../client/exact-json.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

type Query = NonNullable<Operations['GET /projects/{project_id}/jobs']['query']>;
type Job = Operations['GET /projects/{project_id}/jobs/{job_id}']['answer'];
type Status = NonNullable<Query['status']>;

const statuses: readonly Status[] = [
  'queued',
  'running',
  'waiting',
  'succeeded',
  'failed',
  'dead',
  'cancelled',
  'expired',
];

const reasons: Readonly<Record<NonNullable<Job['waiting_reason']>, string>> = {
  project_limit: 'all places of the project are taken',
  global_limit: 'all places of this kind on the platform are taken',
  queue: 'others wait before it',
  retry_backoff: 'it failed, and is tried again after a pause',
  paused: 'the queue is paused',
  delayed: 'its time has not come',
  concurrency: 'others with its concurrency key run',
  organization_limit: 'all places of the organization are taken',
  rate_limited: 'its function has run as often as its rate allows',
  debounce: 'its function waits until a burst is over',
  batch: 'its function gathers a batch',
  step_sleep: 'its run sleeps until a time',
  step_event: 'its run waits for an event',
};

const timeOf = (at: string | null): string => (at === null ? '–' : new Date(at).toLocaleString());

const Steps = ({ steps }: Pick<Job, 'steps'>) => (
  <Table caption="Steps" columns={['Step', 'Status', 'Attempt', 'Started', 'Result']}>
    {steps.map((step) => (
      <tr key={step.name}>
        <td>{step.name}</td>
        <td className={step.status === 'failed' ? 'bad' : ''}>{step.status}</td>
        <td>{step.attempt}</td>
        <td>{timeOf(step.started_at)}</td>
        <td className="one-line">{step.error?.message ?? textOf(step.result)}</td>
      </tr>
    ))}
  </Table>
);

const JobDetail = ({ id }: { readonly id: string }) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const params = { project_id: project.id, job_id: id };
  const job = useQuery({
    queryKey: ['job', id],
    queryFn: () => call('GET /projects/{project_id}/jobs/{job_id}', { params }),
    refetchInterval: ({ state }) => (state.data?.finished_at === null ? 1000 : false),
  });
  const act = useMutation({
    mutationFn: (what: 'cancel' | 'retry') =>
      call(`POST /projects/{project_id}/jobs/{job_id}/${what}`, { params, body: {} }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['job'] }),
  });
  if (job.error) return <Failure error={job.error} onRetry={() => void job.refetch()} />;
  if (job.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = job;
  const mayCancel = atLeast(role, 'developer') && data.finished_at === null;
  const mayRetry = atLeast(role, 'developer') && ['failed', 'dead', 'cancelled', 'expired'].includes(data.status);
  return (
    <>
      <div className="row">
        <h1>{data.type}</h1>
        <span className={data.status === 'succeeded' ? 'good' : ''}>{data.status}</span>
        {mayCancel && (
          <button type="button" onClick={() => act.mutate('cancel')}>
            Cancel
          </button>
        )}
        {mayRetry && (
          <button type="button" onClick={() => act.mutate('retry')}>
            Run again
          </button>
        )}
      </div>
      {act.error && <Failure error={act.error} />}
      <dl className="facts">
        <dt>Id</dt>
        <dd>
          <code>{data.id}</code>
        </dd>
        {data.waiting_reason !== null && (
          <>
            <dt>Waits, because</dt>
            <dd>
              {reasons[data.waiting_reason] ?? data.waiting_reason}
              {data.position !== null && ` (place ${data.position})`}
            </dd>
          </>
        )}
        <dt>Attempt</dt>
        <dd>
          {data.attempt} of {data.max_attempts}
        </dd>
        <dt>Accepted</dt>
        <dd>{timeOf(data.created_at)}</dd>
        <dt>Started</dt>
        <dd>{timeOf(data.started_at)}</dd>
        <dt>Ended</dt>
        <dd>{timeOf(data.finished_at)}</dd>
        <dt>Request</dt>
        <dd>
          <code>{data.request_id}</code>
        </dd>
      </dl>
      {data.error && (
        <p className="bad">
          <code>{data.error.code}</code> {data.error.message}
        </p>
      )}
      {data.steps.length > 0 && <Steps steps={data.steps} />}
      <h2>Result</h2>
      <pre>{JSON.stringify(data.result, null, 2)}</pre>
    </>
  );
};

const JobList = () => {
  const { project } = useProject();
  const [search, setSearch] = useSearchParams();
  const status = statuses.find((each) => each === search.get('status'));
  const q = search.get('q') ?? '';
  const query: Query = { limit: 50, ...(status && { status }), ...(q !== '' && { q }) };
  const jobs = useQuery({
    queryKey: ['jobs', project.id, query],
    queryFn: () => call('GET /projects/{project_id}/jobs', { params: { project_id: project.id }, query }),
    refetchInterval: 5000,
  });
  const set = (name: string, value: string): void =>
    setSearch(value === '' ? {} : { ...Object.fromEntries(search), [name]: value });
  return (
    <>
      <h1>Jobs</h1>
      <div className="row">
        <label className="inline">
          Status
          <select value={status ?? ''} onChange={({ target }) => set('status', target.value)}>
            <option value="">any</option>
            {statuses.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label className="inline">
          Error
          <input defaultValue={q} placeholder="part of its text" onBlur={({ target }) => set('q', target.value)} />
        </label>
        <span className="muted">{jobs.data?.total.toLocaleString('en')} jobs</span>
      </div>
      {jobs.error && <Failure error={jobs.error} onRetry={() => void jobs.refetch()} />}
      <Table caption="Jobs" isCaptionHidden columns={['Accepted', 'Kind', 'Status', 'Attempt', 'Error']}>
        {jobs.data?.jobs.map((job) => (
          <tr key={job.id}>
            <td>
              <Link href={`/projects/${project.id}/jobs/${job.id}`}>{timeOf(job.created_at)}</Link>
            </td>
            <td>{job.type}</td>
            <td className={job.status === 'succeeded' ? 'good' : ''}>{job.status}</td>
            <td>{job.attempt}</td>
            <td className="one-line">{job.error?.message}</td>
          </tr>
        ))}
      </Table>
      {jobs.data?.total === 0 && <p className="empty">There is no such job.</p>}
    </>
  );
};

/** The jobs of the project, or the one that the address names. */
export const JobsPage = ({ id }: { readonly id: string | undefined }) =>
  id === undefined ? <JobList /> : <JobDetail key={id} id={id} />;
