import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { usePace } from '../../client/live.ts';
import { useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { spanText } from './words.ts';

/** How the runs of functions get on: what waits, why, and how soon a new one would start. */
export const Queue = () => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const pace = usePace(10_000);
  const queue = useQuery({
    queryKey: ['jobs', project.id, 'queue'],
    queryFn: () => call('GET /projects/{project_id}/queue', { params }),
    refetchInterval: pace,
  });
  const functions = useQuery({
    queryKey: ['functions', project.id],
    queryFn: () => call('GET /projects/{project_id}/functions', { params, query: { limit: 200 } }),
  });
  const { data } = queue;
  if (data === undefined && queue.error) return <Failure error={queue.error} onRetry={() => void queue.refetch()} />;
  if (data === undefined) return <p className="loading">Loading…</p>;
  const nameOf = (id: string): string => functions.data?.functions.find((fn) => fn.id === id)?.name ?? id;
  const held = Object.entries(data.held).filter(([, count]) => count > 0);
  return (
    <>
      <dl className="figures">
        <div>
          <dt>Waiting</dt>
          <dd>{data.waiting.toLocaleString('en')}</dd>
        </div>
        <div>
          <dt>Running</dt>
          <dd>
            {data.running} of {data.limit}
          </dd>
        </div>
        <div>
          <dt>Longest wait</dt>
          <dd>{data.oldest_wait_ms === null ? '–' : spanText(data.oldest_wait_ms)}</dd>
        </div>
        <div>
          <dt>Ended per minute</dt>
          <dd>{data.per_minute}</dd>
        </div>
        <div>
          <dt>A new job starts in about</dt>
          <dd>{data.estimated_start_ms === null ? 'not known' : spanText(data.estimated_start_ms)}</dd>
        </div>
      </dl>
      {held.length > 0 && (
        <p>
          Of those that wait, their function holds back{' '}
          {held.map(([reason, count]) => `${count} (${reason.replace('_', ' ')})`).join(', ')}.
        </p>
      )}
      {data.failures.length > 0 && (
        <Table caption="Failures of the last hour" columns={['Function', 'Failures', '']}>
          {data.failures.map(({ function_id: id, count }) => (
            <tr key={id}>
              <td>
                <Link href={`/projects/${project.id}/functions/${id}`}>{nameOf(id)}</Link>
              </td>
              <td>{count}</td>
              <td>
                <Link href={`/projects/${project.id}/jobs?function_id=${id}&status=failed`}>Show them</Link>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {data.failures.length === 0 && <p className="muted">No run failed in the last hour.</p>}
    </>
  );
};
