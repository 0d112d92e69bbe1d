import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { oneOf, useFilters } from '../../dashboard/client/filters.ts';
import { Failure } from '../../dashboard/components/failure.tsx';
import { Table } from '../../dashboard/components/table.tsx';
import { type MailStatus, call } from '../client/api.ts';
import { Choice } from '../components/fields.tsx';
import { Heading } from '../components/heading.tsx';
import { ListPager, Status, pageSize } from '../components/job-table.tsx';
import { When } from '../components/when.tsx';

const statuses: readonly MailStatus[] = ['queued', 'sent', 'failed', 'unknown', 'kept'];

/** The mails of the platform to its users, and those of projects that cannot be sent because there is no mail server. */
export const MailsPage = () => {
  const filters = useFilters();
  const status = oneOf(statuses, filters.get('status'));
  const mails = useQuery({
    queryKey: ['mails', status, filters.offset],
    queryFn: () =>
      call('GET /ops/api/mail', { query: { ...(status && { status }), limit: pageSize, offset: filters.offset } }),
    refetchInterval: 5000,
    placeholderData: (present) => present,
  });
  const found = mails.data?.mails;
  return (
    <>
      <Heading title="Mail" />
      <div className="row filters">
        <Choice
          key={status}
          name="status"
          label="Status"
          options={statuses}
          value={status ?? ''}
          onChange={(next) => filters.set({ status: next })}
        />
      </div>
      {mails.error && <Failure error={mails.error} onRetry={() => void mails.refetch()} />}
      {found?.length === 0 && (
        <p className="empty">{status === undefined ? 'Nothing was written yet.' : `No mail is ${status}.`}</p>
      )}
      {found !== undefined && found.length > 0 && (
        <Table caption="Mails, newest first" isCaptionHidden columns={['To', 'Subject', 'Status', 'Written']}>
          {found.map((mail) => (
            <tr key={mail.id}>
              <td>{mail.recipient}</td>
              <td>
                <Link href={`/mail/${mail.id}`}>{mail.subject || 'No subject'}</Link>
              </td>
              <td>
                <Status status={mail.status} />
              </td>
              <td>
                <When at={mail.created_at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {mails.data && <ListPager label="mails" filters={filters} total={mails.data.total} />}
    </>
  );
};
