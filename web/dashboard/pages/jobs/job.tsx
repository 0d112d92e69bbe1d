import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { textOf } from '../../client/exact-json.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { type Job, open, retried, spanText, statusClass, statusTexts, typeText, waitText } from './words.ts';

type Retry = (fromStep?: string) => void;

interface StepsProps {
  readonly job: Job;
  /** Left out: the role does not allow it. */
  readonly onRetryFrom?: Retry | undefined;
}

const Steps = ({ job, onRetryFrom }: StepsProps) => (
  <section aria-label="Steps">
    <h2>Steps</h2>
    <Table
      caption="Steps of the job"
      isCaptionHidden
      columns={['Step', 'Status', 'Attempt', 'Started', 'Took', 'Result', '']}
    >
      {job.steps.map((step) => (
        <tr key={step.name}>
          <td>{step.name}</td>
          <td className={step.status === 'failed' ? 'bad' : step.status === 'succeeded' ? 'good' : ''}>
            {step.status}
          </td>
          <td>{step.attempt}</td>
          <td>
            <Time at={step.started_at} />
          </td>
          <td>
            {step.finished_at === null ? '–' : spanText(Date.parse(step.finished_at) - Date.parse(step.started_at))}
          </td>
          <td className="one-line">{step.error?.message ?? textOf(step.result)}</td>
          <td>
            {onRetryFrom !== undefined && (
              <button type="button" onClick={() => onRetryFrom(step.name)}>
                Run again from {step.name} on
              </button>
            )}
          </td>
        </tr>
      ))}
    </Table>
  </section>
);

const Timeline = ({ job }: { readonly job: Job }) => {
  const isOver = job.finished_at !== null;
  return (
    <section aria-label="What happened">
      <h2>What happened</h2>
      <ol className="timeline">
        <li>
          <Time at={job.created_at} /> accepted
        </li>
        {job.attempts.map((attempt) => (
          <li key={`${attempt.attempt} ${attempt.ended_at}`} className="bad">
            <Time at={attempt.started_at ?? attempt.ended_at} /> attempt {attempt.attempt} failed
            {attempt.started_at !== null &&
              ` after ${spanText(Date.parse(attempt.ended_at) - Date.parse(attempt.started_at))}`}
            : <code>{attempt.error.code}</code> {attempt.error.message}
          </li>
        ))}
        {job.started_at !== null && job.status !== 'queued' && (
          <li>
            <Time at={job.started_at} /> attempt {job.attempt} began
          </li>
        )}
        {!isOver && (
          <li>
            now: {statusTexts[job.status]} {waitText(job) !== null && `It waits because ${waitText(job)}.`}
          </li>
        )}
        {isOver && (
          <li className={statusClass(job.status)}>
            <Time at={job.finished_at} /> {job.status}
            {job.started_at !== null &&
              ` after ${spanText(Date.parse(job.finished_at ?? '') - Date.parse(job.started_at))}`}
            {job.error && (
              <>
                : <code>{job.error.code}</code> {job.error.message}
              </>
            )}
          </li>
        )}
      </ol>
    </section>
  );
};

const Facts = ({ job }: { readonly job: Job }) => {
  const { project } = useProject();
  const base = `/projects/${project.id}`;
  return (
    <dl className="facts">
      <dt>Status</dt>
      <dd>
        <strong className={statusClass(job.status)}>{job.status}</strong> {statusTexts[job.status]}
      </dd>
      {job.waiting_reason !== null && (
        <>
          <dt>Waits, because</dt>
          <dd>{waitText(job)}</dd>
        </>
      )}
      <dt>Id</dt>
      <dd>
        <code>{job.id}</code>
      </dd>
      {job.function_id !== null && (
        <>
          <dt>Function</dt>
          <dd>
            <Link href={`${base}/functions/${job.function_id}`}>its code</Link>,{' '}
            <Link href={`${base}/functions/${job.function_id}?tab=runs&run=${job.id}`}>the log of the run</Link>
          </dd>
        </>
      )}
      <dt>Attempt</dt>
      <dd>
        {job.attempt} of {job.max_attempts}
      </dd>
      {job.progress !== null && job.finished_at === null && (
        <>
          <dt>Progress</dt>
          <dd>
            <progress max={100} value={job.progress} aria-label="Progress" /> {Math.round(job.progress)} %
          </dd>
        </>
      )}
      <dt>Request</dt>
      <dd>
        <Link href={`${base}/logs?request_id=${encodeURIComponent(job.request_id)}`}>
          <code>{job.request_id}</code>
        </Link>
      </dd>
    </dl>
  );
};

/** One job: where it stands, what happened to it, and what it was given and gave back. */
export const JobDetail = ({ id }: { readonly id: string }) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const [isCancelling, setCancelling] = useState(false);
  const params = { project_id: project.id, job_id: id };
  const pace = usePace(2000);
  const job = useQuery({
    queryKey: ['job', id],
    queryFn: () => call('GET /projects/{project_id}/jobs/{job_id}', { params }),
    refetchInterval: ({ state }) => (state.data?.finished_at === null ? pace : false),
  });
  const settle = (): Promise<void> => queries.invalidateQueries({ queryKey: ['job', id] });
  const cancel = useMutation({
    mutationFn: () => call('POST /projects/{project_id}/jobs/{job_id}/cancel', { params, body: {} }),
    onSettled: settle,
  });
  const retry = useMutation({
    mutationFn: (fromStep?: string) =>
      call('POST /projects/{project_id}/jobs/{job_id}/retry', {
        params,
        body: fromStep === undefined ? {} : { from_step: fromStep },
      }),
    onSettled: settle,
  });
  if (job.data === undefined && job.error) return <Failure error={job.error} onRetry={() => void job.refetch()} />;
  if (job.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = job;
  const mayChange = atLeast(role, 'developer');
  const mayRetry = mayChange && retried.includes(data.status);
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/jobs`}>All jobs</Link>
      </p>
      <div className="row">
        <h1>{typeText(data.type)}</h1>
        {mayChange && open.includes(data.status) && (
          <button type="button" onClick={() => setCancelling(true)}>
            Cancel
          </button>
        )}
        {mayRetry && (
          <button type="button" className="primary" disabled={retry.isPending} onClick={() => retry.mutate(undefined)}>
            Run again
          </button>
        )}
      </div>
      {job.error && <Failure error={job.error} onRetry={() => void job.refetch()} />}
      {(retry.error ?? cancel.error) && <Failure error={retry.error ?? cancel.error} />}
      <Facts job={data} />
      <Timeline job={data} />
      {data.steps.length > 0 && <Steps job={data} onRetryFrom={mayRetry ? (step) => retry.mutate(step) : undefined} />}
      <div className="sides">
        {data.function_id !== null && (
          <section aria-label="Payload">
            <h2>Payload</h2>
            <pre>{textOf(data.payload, 2)}</pre>
          </section>
        )}
        <section aria-label="Result">
          <h2>Result</h2>
          <pre>{textOf(data.result, 2)}</pre>
        </section>
      </div>
      {isCancelling && (
        <Confirm
          title="Cancel the job?"
          action="Cancel the job"
          onClose={() => setCancelling(false)}
          onConfirm={() => {
            setCancelling(false);
            cancel.mutate();
          }}
        >
          <p>A run that has begun is stopped. What it has done already is not undone.</p>
        </Confirm>
      )}
    </>
  );
};
