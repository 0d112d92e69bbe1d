import { useInfiniteQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { oneOf, useFilters } from '../../client/filters.ts';
import { fieldOf } from '../../client/form.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { BulkDialog } from '../../components/bulk-dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { type Mail, statusClass, statusTexts, statuses } from './words.ts';

type Query = NonNullable<Operations['GET /projects/{project_id}/email/mails']['query']>;
type Filter = Operations['POST /projects/{project_id}/email/mails/resend']['body']['filter'];

const listed = ['undelivered', ...statuses] as const;
const refreshMs = 10_000;

const useMails = (query: Query) => {
  const { project } = useProject();
  const pace = usePace(refreshMs);
  return useInfiniteQuery({
    queryKey: ['mails', project.id, query],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      call('GET /projects/{project_id}/email/mails', {
        params: { project_id: project.id },
        query: { ...query, ...(pageParam !== '' && { cursor: pageParam }) },
      }),
    getNextPageParam: ({ next }) => next ?? undefined,
    placeholderData: (present) => present,
    refetchInterval: (of) => (of.state.data?.pages.length === 1 ? pace : false),
  });
};

interface ResendProps {
  readonly filter: Filter;
  readonly words: string;
  readonly onClose: () => void;
}

/** Sends the mails of a filter again, after a look at how many they are. */
export const ResendDialog = ({ filter, words, onClose }: ResendProps) => {
  const { project } = useProject();
  return (
    <BulkDialog
      title="Send these mails again?"
      thing="mail"
      words={words}
      effect="Those that were given up, or whose fate is not known, go to the same addresses with the same text. One whose fate is not known may arrive twice."
      button="Send them again"
      countKey={['resend', project.id, filter]}
      stale={['mails', project.id]}
      change={(dryRun) =>
        call('POST /projects/{project_id}/email/mails/resend', {
          params: { project_id: project.id },
          body: { filter, dry_run: dryRun },
        })
      }
      onClose={onClose}
    />
  );
};

const MailRow = ({ mail }: { readonly mail: Mail }) => {
  const { project } = useProject();
  return (
    <tr>
      <td>
        <Link href={`/projects/${project.id}/mail/sent/${mail.id}`}>
          <Time at={mail.created_at} />
        </Link>
      </td>
      <td>{mail.template}</td>
      <td>
        <bdi>{mail.recipient}</bdi>
      </td>
      <td>
        <span className={`tag ${statusClass(mail.status)}`} title={statusTexts[mail.status]}>
          {mail.status}
        </span>
      </td>
      <td>{mail.attempts}</td>
      <td className="found">
        <bdi>{mail.error ?? mail.response ?? '–'}</bdi>
      </td>
      <td>
        <Time at={mail.next_attempt_at} />
      </td>
    </tr>
  );
};

const rowsOf = ({ data }: ReturnType<typeof useMails>): Mail[] => (data?.pages ?? []).flatMap((page) => page.mails);

interface MailListProps {
  readonly mails: ReturnType<typeof useMails>;
  readonly emptyText: string;
}

const MailList = ({ mails, emptyText }: MailListProps) => {
  const rows = rowsOf(mails);
  return (
    <>
      {mails.error && <Failure error={mails.error} onRetry={() => void mails.refetch()} />}
      {mails.data !== undefined && rows.length === 0 && !mails.hasNextPage && <p className="empty">{emptyText}</p>}
      {rows.length > 0 && (
        <Table
          caption="Mails"
          isCaptionHidden
          columns={['Made', 'Mail', 'To', 'Status', 'Attempts', 'Why', 'Next attempt']}
        >
          {rows.map((mail) => (
            <MailRow key={mail.id} mail={mail} />
          ))}
        </Table>
      )}
      {mails.hasNextPage && (
        <button type="button" disabled={mails.isFetchingNextPage} onClick={() => void mails.fetchNextPage()}>
          Earlier mails
        </button>
      )}
    </>
  );
};

type Status = (typeof listed)[number];

/** The filter in words. */
const filterText = (status: Status | undefined, recipient: string, error: string): string => {
  const state = status === undefined || status === 'undelivered' ? 'were not delivered' : `are ${status}`;
  const to = recipient === '' ? '' : `, to “${recipient}”`;
  return `Mails that ${state}${to}${error === '' ? '' : `, with “${error}” in their error`}.`;
};

/** The filter of the page, for those of its mails that can be sent again. */
const filterOf = (status: Status | undefined, recipient: string, error: string): Filter | null => {
  const resendable = oneOf(['failed', 'unknown', 'kept'] as const, status ?? '');
  if (status !== undefined && status !== 'undelivered' && resendable === undefined) return null;
  return {
    // A filter has to name something; every mail was made since then.
    since: new Date(0).toISOString(),
    ...(resendable && { status: resendable }),
    ...(recipient !== '' && { recipient }),
    ...(error !== '' && { error }),
  };
};

/** The mails of the project, and why some of them were not delivered. */
export const Mails = () => {
  const { role } = useProject();
  const filters = useFilters();
  const [isSending, setSending] = useState(false);
  const given = filters.get('status');
  const status = given === 'any' ? undefined : (oneOf(listed, given) ?? 'undelivered');
  const [recipient, error] = [filters.get('recipient'), filters.get('error')];
  const mails = useMails({
    ...(status && { status }),
    ...(recipient !== '' && { recipient }),
    ...(error !== '' && { error }),
  });
  const resend = filterOf(status, recipient, error);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    filters.set({ recipient: fieldOf(form, 'recipient').trim(), error: fieldOf(form, 'error').trim() });
  };
  return (
    <>
      <form className="row" onSubmit={submit} key={`${recipient} ${error}`}>
        <label className="inline">
          Status
          <select value={status ?? 'any'} onChange={({ target }) => filters.set({ status: target.value })}>
            <option value="any">any</option>
            {listed.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label className="inline">
          Recipient
          <input name="recipient" defaultValue={recipient} maxLength={320} />
        </label>
        <label className="inline">
          Error
          <input name="error" defaultValue={error} maxLength={200} />
        </label>
        <button type="submit">Search</button>
        {atLeast(role, 'developer') && resend !== null && rowsOf(mails).some((mail) => mail.can_be_resent) && (
          <button type="button" onClick={() => setSending(true)}>
            Send these again…
          </button>
        )}
      </form>
      <MailList
        mails={mails}
        emptyText={
          status === 'undelivered' ? 'Every mail of the last 30 days was delivered.' : 'There is no such mail.'
        }
      />
      {isSending && resend !== null && (
        <ResendDialog filter={resend} words={filterText(status, recipient, error)} onClose={() => setSending(false)} />
      )}
    </>
  );
};
