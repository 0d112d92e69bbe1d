import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { Failure } from '../../dashboard/components/failure.tsx';
import { LogLines } from '../../dashboard/components/log-lines.tsx';
import { Table } from '../../dashboard/components/table.tsx';
import { type JobDetail, call } from '../client/api.ts';
import { announce } from '../client/announce.ts';
import { indented, numberText, secondsText } from '../client/words.ts';
import { Ask } from '../components/ask.tsx';
import { Facts } from '../components/facts.tsx';
import { Heading } from '../components/heading.tsx';
import { FunctionLink, Status } from '../components/job-table.tsx';
import { When } from '../components/when.tsx';

type Place = NonNullable<JobDetail['place']>;

const reasons: Readonly<Record<NonNullable<Place['reason']>, string>> = {
  project_limit: 'its project is at its limit',
  global_limit: 'all workers are busy',
  organization_limit: 'its organization runs as many jobs as it may',
  paused: 'it is paused',
  queue: 'workers take it next',
};

const placeText = (place: JobDetail['place']): string => {
  if (place === null) return 'unknown while Redis does not answer';
  if (place.state === 'handed over') return 'handed to workers';
  if (place.state === 'absent') return 'not at the gate yet; it is found within some seconds';
  return `number ${numberText(place.position)} of its project${place.reason === null ? '' : `: ${reasons[place.reason]}`}`;
};

const placeOf = ({ status, place, next_run_at: next }: JobDetail): ReactNode => {
  if (status !== 'queued') return null;
  if (next === null) return placeText(place);
  return (
    <>
      the next attempt is due <When at={next} />
    </>
  );
};

const timeOf = (at: string | null): ReactNode => at !== null && <When at={at} />;

const codeOf = (text: string | null): ReactNode => text !== null && <code>{text}</code>;

const tookOf = ({ started_at: start, finished_at: end }: JobDetail): ReactNode =>
  start !== null && end !== null && secondsText((Date.parse(end) - Date.parse(start)) / 1000);

const factsOf = (job: JobDetail): Readonly<Record<string, ReactNode>> => ({
  Project: (
    <Link href={`/jobs?project=${job.project_id}`}>{job.project_name ?? job.project_ref ?? job.project_id}</Link>
  ),
  Function: job.function_id !== null && <FunctionLink {...job} />,
  Attempt: `${job.attempt} of ${job.max_attempts}${job.crashes > 0 ? `, ${job.crashes} crashed` : ''}`,
  Progress: job.progress !== null && `${job.progress} %`,
  Stands: placeOf(job),
  Accepted: timeOf(job.created_at),
  Started: <When at={job.started_at} />,
  Ended: timeOf(job.finished_at),
  'Ran for': tookOf(job),
  'Cancel asked': timeOf(job.cancel_requested_at),
  Worker: codeOf(job.worker_id),
  Request: (
    <Link href={`/jobs?request_id=${encodeURIComponent(job.request_id)}`}>
      <code>{job.request_id}</code>
    </Link>
  ),
  Trace: codeOf(job.traceparent),
});

interface TextPanelProps {
  readonly title: string;
  readonly text: string | null;
  /** The number of characters of the whole, of which `text` may be the beginning. */
  readonly length: number | null;
}

const TextPanel = ({ title, text, length }: TextPanelProps) => (
  <section className="panel" aria-label={title}>
    <h2>{title}</h2>
    {text === null ? (
      <p className="muted">None.</p>
    ) : (
      <pre tabIndex={0} aria-label={title}>
        {indented(text)}
      </pre>
    )}
    {text !== null && (length ?? 0) > text.length && (
      <p className="muted">
        The first {numberText(text.length)} of {numberText(length)} characters.
      </p>
    )}
  </section>
);

const Attempts = ({ attempts }: Pick<JobDetail, 'attempts'>) => (
  <section className="panel" aria-label="Earlier attempts">
    <h2>Earlier attempts</h2>
    {attempts.length === 0 ? (
      <p className="muted">None.</p>
    ) : (
      <Table
        caption="Attempts that another one followed"
        isCaptionHidden
        columns={['Attempt', 'Started', 'Ended', 'Error']}
      >
        {attempts.map((one) => (
          <tr key={one.ended_at}>
            <td>{one.attempt}</td>
            <td>
              <When at={one.started_at} />
            </td>
            <td>
              <When at={one.ended_at} />
            </td>
            <td className="wrapping">
              <code>{one.error.code}</code> {one.error.message}
            </td>
          </tr>
        ))}
      </Table>
    )}
  </section>
);

const Log = ({ logs }: Pick<JobDetail, 'logs'>) => (
  <section className="panel" aria-label="Log of the job">
    <h2>Log</h2>
    {logs.length === 0 ? (
      <p className="muted">Nothing was logged.</p>
    ) : (
      <LogLines label="Log" lines={logs.map(({ at, level, message }) => ({ ts: at, level, message }))} />
    )}
  </section>
);

const retriable = new Set(['failed', 'cancelled', 'expired', 'dead']);

const Actions = ({ job }: { readonly job: JobDetail }) => {
  const queries = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const params = { job_id: job.id };
  const show = (found: JobDetail): void => void queries.setQueryData(['job', job.id], found);
  const retry = useMutation({
    mutationFn: () => call('POST /ops/api/jobs/{job_id}/retry', { params, body: {} }),
    onSuccess: (found) => {
      show(found);
      announce('The job is queued again.');
    },
  });
  const isRetriable = retriable.has(job.status);
  return (
    <>
      {retry.error && <Failure error={retry.error} />}
      <p className="row">
        {isRetriable && (
          <button type="button" className="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
            Retry
          </button>
        )}
        {!isRetriable && job.status !== 'succeeded' && (
          <button type="button" onClick={() => setAsking(true)}>
            Cancel job
          </button>
        )}
      </p>
      {isAsking && (
        <Ask
          title="Cancel this job?"
          text="A running one is stopped where it is."
          action="Cancel the job"
          isDangerous
          onClose={() => setAsking(false)}
          work={async () => {
            show(await call('POST /ops/api/jobs/{job_id}/cancel', { params, body: {} }));
            announce('The job is cancelled.');
          }}
        />
      )}
    </>
  );
};

const Detail = ({ job }: { readonly job: JobDetail }) => (
  <>
    <div className="row job-head">
      <Status status={job.status} />
      <strong>{job.type}</strong>
      <code className="muted">{job.id}</code>
    </div>
    {job.error !== null && (
      <p className="failure">
        {job.error.code}: {job.error.message}
      </p>
    )}
    <Facts of={factsOf(job)} />
    <Actions job={job} />
    <div className="panels wide">
      <TextPanel title="Payload" text={job.payload} length={job.payload_length} />
      <TextPanel title="Result" text={job.result} length={job.result_length} />
      <Attempts attempts={job.attempts} />
      <Log logs={job.logs} />
    </div>
  </>
);

/** One job: where it stands, what it was given, what came of it. */
export const JobPage = ({ id }: { readonly id: string }) => {
  const job = useQuery({
    queryKey: ['job', id],
    queryFn: () => call('GET /ops/api/jobs/{job_id}', { params: { job_id: id } }),
    refetchInterval: 2000,
  });
  return (
    <>
      <Heading title="Job" />
      {job.error && <Failure error={job.error} onRetry={() => void job.refetch()} />}
      {job.isPending && <p className="loading">Loading…</p>}
      {job.data && <Detail job={job.data} />}
    </>
  );
};
