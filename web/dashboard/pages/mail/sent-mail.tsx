import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Time } from '../../components/time.tsx';
import { ResendDialog } from './mails.tsx';
import { type Mail, statusClass, statusTexts } from './words.ts';

/** The text of the mail: it is read when somebody asks for it, since the audit log says who did. */
const Content = ({ mail }: { readonly mail: Mail }) => {
  const { project, role } = useProject();
  const read = useMutation({
    mutationFn: () =>
      call('POST /projects/{project_id}/email/mails/{email_id}/read', {
        params: { project_id: project.id, email_id: mail.id },
        body: {},
      }),
  });
  if (!atLeast(role, 'admin'))
    return <p className="muted">What it says is for admins and owners: its links sign in as its reader.</p>;
  return (
    <>
      {read.data === undefined && (
        <p className="row">
          <button type="button" disabled={read.isPending} onClick={() => read.mutate()}>
            Show what it says
          </button>
          <span className="muted">Its links sign in as its reader. The audit log says who read it.</span>
        </p>
      )}
      {read.error && <Failure error={read.error} />}
      {read.data && (
        <section aria-label="What it says">
          <h3>
            <bdi>{read.data.subject}</bdi>
          </h3>
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard */}
          <pre tabIndex={0} role="region" aria-label="Text of the mail">
            {read.data.text}
          </pre>
        </section>
      )}
    </>
  );
};

const Attempts = ({ mail }: { readonly mail: Mail }) => {
  const { project } = useProject();
  const job = useQuery({
    queryKey: ['job', mail.job_id],
    enabled: mail.request_id !== null,
    queryFn: () =>
      call('GET /projects/{project_id}/jobs/{job_id}', { params: { project_id: project.id, job_id: mail.job_id } }),
  });
  return (
    <section aria-label="Attempts">
      <h2>Attempts</h2>
      <ol className="timeline">
        <li>
          <Time at={mail.created_at} /> made
        </li>
        {job.data?.attempts.map(({ attempt, ended_at: at, error }) => (
          <li key={`${attempt} ${at}`} className="bad">
            <Time at={at} /> attempt {attempt}: <bdi>{error.message}</bdi>
          </li>
        ))}
        {job.data !== undefined && job.data.finished_at !== null && (
          <li className={job.data.status === 'succeeded' ? 'good' : 'bad'}>
            <Time at={job.data.finished_at} /> attempt {job.data.attempt}:{' '}
            <bdi>{job.data.error?.message ?? mail.response ?? job.data.status}</bdi>
          </li>
        )}
        {mail.next_attempt_at !== null && (
          <li>
            <Time at={mail.next_attempt_at} /> next attempt
          </li>
        )}
      </ol>
      {mail.request_id === null ? (
        <p className="muted">Its job is not kept any more; the mail was tried {mail.attempts} times.</p>
      ) : (
        <p>
          <Link href={`/projects/${project.id}/jobs/${mail.job_id}`}>Its job</Link>,{' '}
          <Link href={`/projects/${project.id}/logs?request_id=${encodeURIComponent(mail.request_id)}`}>
            its request in the logs
          </Link>
        </p>
      )}
    </section>
  );
};

/** One mail: what became of it, and its attempts. */
export const SentMailPage = ({ mail: id }: { readonly mail: string }) => {
  const { project, role } = useProject();
  const [isSending, setSending] = useState(false);
  const pace = usePace(2000);
  const found = useQuery({
    queryKey: ['mails', project.id, 'one', id],
    queryFn: () =>
      call('GET /projects/{project_id}/email/mails/{email_id}', { params: { project_id: project.id, email_id: id } }),
    refetchInterval: ({ state }) => (state.data?.status === 'queued' ? pace : false),
  });
  if (found.error) return <Failure error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <p className="loading">Loading…</p>;
  const mail = found.data;
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/mail?tab=sent`}>All mails</Link>
      </p>
      <div className="row head">
        <h1>
          {mail.template} to <bdi>{mail.recipient}</bdi>
        </h1>
        {atLeast(role, 'developer') && mail.can_be_resent && (
          <button type="button" className="primary" onClick={() => setSending(true)}>
            Send it again…
          </button>
        )}
      </div>
      <p role="status">
        <span className={`tag ${statusClass(mail.status)}`}>{mail.status}</span> {statusTexts[mail.status]}
      </p>
      {mail.error !== null && (
        <p className="bad">
          <bdi>{mail.error}</bdi>
        </p>
      )}
      <Attempts mail={mail} />
      {mail.can_be_resent && <Content mail={mail} />}
      {isSending && (
        <ResendDialog
          filter={{ ids: [mail.id] }}
          words={`The mail to ${mail.recipient}.`}
          onClose={() => setSending(false)}
        />
      )}
    </>
  );
};
