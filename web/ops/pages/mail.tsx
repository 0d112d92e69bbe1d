import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Failure } from '../../dashboard/components/failure.tsx';
import { type Mail, call } from '../client/api.ts';
import { announce } from '../client/announce.ts';
import { countText } from '../client/words.ts';
import { Facts } from '../components/facts.tsx';
import { Heading } from '../components/heading.tsx';
import { Status } from '../components/job-table.tsx';
import { When } from '../components/when.tsx';

const outcomeOf = ({ status, error, response, attempts }: Mail): string | null => {
  if (status === 'kept') return 'There is no mail server for it, so it was not sent.';
  return error === null ? response : `${error} (${countText(attempts, 'try', 'tries')})`;
};

const factsOf = (mail: Mail): Readonly<Record<string, ReactNode>> => ({
  To: mail.recipient,
  From: mail.project_id === null ? 'the platform' : `project ${mail.project_id}`,
  Written: <When at={mail.created_at} />,
  Sent: mail.sent_at && <When at={mail.sent_at} />,
  Outcome: outcomeOf(mail),
});

const Content = ({ mail: { id, body, subject } }: { readonly mail: Mail }) =>
  body === null ? (
    <p className="empty">Its text is not for operators: it lets its reader in.</p>
  ) : (
    <>
      <div className="mail-preview">
        <iframe title={`The mail “${subject}”`} sandbox="" src={`/ops/api/mail/${encodeURIComponent(id)}/html`} />
      </div>
      <section className="panel" aria-label="As text">
        <h2>As text</h2>
        <pre tabIndex={0}>{body}</pre>
      </section>
    </>
  );

const maySend = ({ status, project_id: project }: Mail): boolean =>
  project === null && ['failed', 'unknown', 'kept'].includes(status);

const Detail = ({ mail }: { readonly mail: Mail }) => {
  const queries = useQueryClient();
  const retry = useMutation({
    mutationFn: () => call('POST /ops/api/mail/{mail_id}/retry', { params: { mail_id: mail.id }, body: {} }),
    onSuccess: (found) => {
      queries.setQueryData(['mail', mail.id], found);
      announce('The mail is queued.');
    },
  });
  return (
    <>
      <div className="row">
        <Status status={mail.status} />
        <strong>{mail.subject || 'No subject'}</strong>
      </div>
      <Facts of={factsOf(mail)} />
      {retry.error && <Failure error={retry.error} />}
      {maySend(mail) && (
        <p className="row">
          <button type="button" className="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
            Send it
          </button>
        </p>
      )}
      <Content mail={mail} />
    </>
  );
};

/** One mail, as its reader sees it. */
export const MailPage = ({ id }: { readonly id: string }) => {
  const mail = useQuery({
    queryKey: ['mail', id],
    queryFn: () => call('GET /ops/api/mail/{mail_id}', { params: { mail_id: id } }),
    refetchInterval: 5000,
  });
  return (
    <>
      <Heading title="Mail" />
      {mail.error && <Failure error={mail.error} onRetry={() => void mail.refetch()} />}
      {mail.isPending && <p className="loading">Loading…</p>}
      {mail.data && <Detail mail={mail.data} />}
    </>
  );
};
