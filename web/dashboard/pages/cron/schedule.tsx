import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useFilters } from '../../client/filters.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { ScheduleFields, scheduleOf } from './form.tsx';
import { type Schedule, runClass } from './shapes.ts';

const limit = 25;

const Runs = ({ id }: { readonly id: string }) => {
  const { project } = useProject();
  const filters = useFilters();
  const pace = usePace(5000);
  const runs = useQuery({
    queryKey: ['schedules', project.id, id, 'runs', filters.offset],
    queryFn: () =>
      call('GET /projects/{project_id}/cron/{cid}/runs', {
        params: { project_id: project.id, cid: id },
        query: { limit, offset: filters.offset },
      }),
    placeholderData: (present) => present,
    refetchInterval: pace,
  });
  return (
    <section aria-label="Its runs">
      <h2>Runs</h2>
      {runs.error && <Failure error={runs.error} onRetry={() => void runs.refetch()} />}
      {runs.data?.total === 0 && <p className="muted">It has not run yet.</p>}
      {runs.data !== undefined && runs.data.total > 0 && (
        <Table
          caption="Runs of the schedule"
          isCaptionHidden
          columns={['Due', 'Begun by', 'Status', 'Took', 'Why, or its error']}
        >
          {runs.data.runs.map((run) => (
            <tr key={run.id}>
              <td>
                {run.job_id === null ? (
                  <Time at={run.fire_at} />
                ) : (
                  <Link href={`/projects/${project.id}/jobs/${run.job_id}`}>
                    <Time at={run.fire_at} />
                  </Link>
                )}
              </td>
              <td>{run.trigger === 'manual' ? 'hand' : 'its time'}</td>
              <td>
                <span className={`tag ${runClass(run.status)}`}>{run.status}</span>
              </td>
              <td>{run.duration_ms === null ? '–' : `${run.duration_ms} ms`}</td>
              <td className="one-line">{run.error?.message ?? run.reason}</td>
            </tr>
          ))}
        </Table>
      )}
      <Pager offset={filters.offset} limit={limit} total={runs.data?.total ?? 0} label="runs" onMove={filters.move} />
    </section>
  );
};

const useScheduleChange = (id: string) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const params = { project_id: project.id, cid: id };
  const onSuccess = (): Promise<void> => queries.invalidateQueries({ queryKey: ['schedules', project.id] });
  return { params, onSuccess };
};

const Controls = ({ schedule }: { readonly schedule: Schedule }) => {
  const { project } = useProject();
  const [, go] = useLocation();
  const [isRemoving, setRemoving] = useState(false);
  const { params, onSuccess } = useScheduleChange(schedule.id);
  const run = useMutation({
    mutationFn: () => call('POST /projects/{project_id}/cron/{cid}/run', { params, body: {} }),
    onSuccess,
  });
  const enable = useMutation({
    mutationFn: (enabled: boolean) => call('PATCH /projects/{project_id}/cron/{cid}', { params, body: { enabled } }),
    onSuccess,
  });
  const remove = useMutation({
    mutationFn: () => call('DELETE /projects/{project_id}/cron/{cid}', { params }),
    onSuccess: async () => {
      go(`/projects/${project.id}/cron`);
      await onSuccess();
    },
  });
  const error = run.error ?? enable.error;
  return (
    <>
      <p className="row">
        <button type="button" className="primary" disabled={run.isPending} onClick={() => run.mutate()}>
          Run it now
        </button>
        <button type="button" disabled={enable.isPending} onClick={() => enable.mutate(!schedule.enabled)}>
          {schedule.enabled ? 'Pause' : 'Go on'}
        </button>
        <button type="button" onClick={() => setRemoving(true)}>
          Delete
        </button>
        <span role="status">{run.data && `A run was begun: ${run.data.status}.`}</span>
      </p>
      {error && <Failure error={error} />}
      {isRemoving && (
        <Confirm
          title={`Delete ${schedule.name}?`}
          action="Delete the schedule"
          onClose={() => setRemoving(false)}
          onConfirm={() => remove.mutate()}
        >
          <p>Its list of runs is gone then. A run that has begun goes on.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};

const Change = ({ schedule }: { readonly schedule: Schedule }) => {
  const { params, onSuccess } = useScheduleChange(schedule.id);
  const [fault, setFault] = useState<string | null>(null);
  const change = useMutation({
    mutationFn: (body: ReturnType<typeof scheduleOf>) =>
      call('PATCH /projects/{project_id}/cron/{cid}', { params, body }),
    onSuccess,
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    try {
      setFault(null);
      change.mutate(scheduleOf(event.currentTarget));
    } catch {
      setFault('The payload is not JSON.');
    }
  };
  return (
    <details>
      <summary>Change it</summary>
      <form onSubmit={submit} key={schedule.updated_at} className="bare">
        <ScheduleFields schedule={schedule} />
        {fault !== null && (
          <p className="bad" role="alert">
            {fault}
          </p>
        )}
        {change.error && <Failure error={change.error} />}
        <p className="row">
          <button type="submit" className="primary" disabled={change.isPending}>
            Save
          </button>
          <span role="status" className="good">
            {change.isSuccess && 'Saved.'}
          </span>
        </p>
      </form>
    </details>
  );
};

/** One schedule: when it runs next, how its runs ended, and its switches. */
export const SchedulePage = ({ id }: { readonly id: string }) => {
  const { project, role } = useProject();
  const pace = usePace(10_000);
  const schedule = useQuery({
    queryKey: ['schedules', project.id, id],
    queryFn: () => call('GET /projects/{project_id}/cron/{cid}', { params: { project_id: project.id, cid: id } }),
    refetchInterval: pace,
  });
  if (schedule.data === undefined && schedule.error)
    return <Failure error={schedule.error} onRetry={() => void schedule.refetch()} />;
  if (schedule.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = schedule;
  const mayChange = atLeast(role, 'developer');
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/cron`}>All schedules</Link>
      </p>
      <h1>{data.name}</h1>
      {schedule.error && <Failure error={schedule.error} onRetry={() => void schedule.refetch()} />}
      <dl className="facts">
        <dt>Times</dt>
        <dd>
          <code>{data.schedule}</code> {data.timezone}
        </dd>
        <dt>Next</dt>
        <dd>{data.enabled ? <Time at={data.next_run_at} /> : 'It is paused.'}</dd>
        <dt>It runs</dt>
        <dd>
          {data.target.type === 'function' && (
            <Link href={`/projects/${project.id}/functions/${data.target.function_id}`}>a function</Link>
          )}
          {data.target.type === 'http' && <code>{data.target.url}</code>}
          {data.target.type === 'sql' && <code>{data.target.sql}</code>}
        </dd>
      </dl>
      {mayChange ? (
        <>
          <Controls schedule={data} />
          <Change schedule={data} />
        </>
      ) : (
        <p className="muted">Developers, admins and owners change and run schedules.</p>
      )}
      <Runs id={id} />
    </>
  );
};
