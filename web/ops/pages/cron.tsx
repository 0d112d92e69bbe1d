import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Failure } from '../../dashboard/components/failure.tsx';
import { Table } from '../../dashboard/components/table.tsx';
import { type Fire, call } from '../client/api.ts';
import { Heading } from '../components/heading.tsx';
import { Status } from '../components/job-table.tsx';
import { When } from '../components/when.tsx';

const LastRun = ({ run }: { readonly run: Fire['last_run'] }) => {
  if (run === null) return <span className="muted">none yet</span>;
  const { status, job_id: job, error_code: code, error_message: message, reason, fire_at: at } = run;
  const why = [code, message ?? reason].filter((part) => part !== null).join(': ');
  return (
    <>
      {job === null ? (
        <Status status={status} />
      ) : (
        <Link href={`/jobs/${job}`}>
          <Status status={status} />
        </Link>
      )}{' '}
      <When at={at} />
      {why !== '' && (
        <small className="muted one-line" title={why}>
          {why}
        </small>
      )}
    </>
  );
};

const FireRow = ({ fire }: { readonly fire: Fire }) => (
  <tr>
    <td>
      {fire.overdue_seconds !== null && <span className="tag bad">overdue</span>} <When at={fire.next_run_at} />
    </td>
    <td>
      {fire.name}
      <small className="muted">
        <code>{fire.schedule}</code> {fire.timezone}
      </small>
    </td>
    <td>
      <span className="tag">{fire.target_type}</span>
      {fire.function_name !== null && <small className="muted">{fire.function_name}</small>}
    </td>
    <td>
      <LastRun run={fire.last_run} />
    </td>
    <td>
      <Link href={`/jobs?project=${fire.project_id}`} title={fire.project_id}>
        {fire.project_name}
      </Link>
      <small className="muted">{fire.project_ref}</small>
    </td>
  </tr>
);

/** The next fires of all schedules, in all projects. */
export const CronPage = () => {
  const upcoming = useQuery({
    queryKey: ['upcoming'],
    queryFn: () => call('GET /ops/api/cron/upcoming', { query: { limit: 100 } }),
    refetchInterval: 5000,
  });
  const fires = upcoming.data?.fires;
  return (
    <>
      <Heading title="Upcoming" />
      {upcoming.error && <Failure error={upcoming.error} onRetry={() => void upcoming.refetch()} />}
      {fires?.length === 0 && <p className="empty">No schedule is due: there are none, or all are disabled.</p>}
      {fires !== undefined && fires.length > 0 && (
        <Table
          caption="Schedules by when they fire next"
          isCaptionHidden
          columns={['Fires', 'Schedule', 'Target', 'Last run', 'Project']}
        >
          {fires.map((fire) => (
            <FireRow key={fire.schedule_id} fire={fire} />
          ))}
        </Table>
      )}
    </>
  );
};
