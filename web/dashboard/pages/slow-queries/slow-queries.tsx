import { useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSqlTabs } from '../../client/sql-tabs.ts';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { useSearch } from '../../client/search.ts';

const limit = 50;
const columns = ['Statement', 'Calls', 'In total', 'On average', 'Longest', 'Rows', ''] as const;

const ms = (value: number): string =>
  `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 2 : 0 })} ms`;

/** The statements that took longest, each with a way to the SQL page, where its plan can be looked at. */
export const SlowQueriesPage = () => {
  const { project } = useProject();
  const [, go] = useLocation();
  const [search, setSearch] = useSearch();
  const offset = Number(search.get('offset') ?? 0);
  const tabs = useSqlTabs(project.id, '');
  const slow = useQuery({
    queryKey: ['slow-queries', project.id, offset],
    queryFn: () =>
      call('GET /projects/{project_id}/db/slow-queries', {
        params: { project_id: project.id },
        query: { limit, offset },
      }),
  });
  const open = (text: string): void => go(`/projects/${project.id}/sql?tab=${tabs.open({ name: 'Slow query', text })}`);
  const { data } = slow;
  return (
    <>
      <div className="row head">
        <h1>Slow queries</h1>
        <button type="button" onClick={() => void slow.refetch()}>
          Load again
        </button>
      </div>
      <p className="muted">
        What took most of the database’s time since its server started. Values are not kept: $1, $2, … stand for them.
      </p>
      {slow.error && <Failure error={slow.error} onRetry={() => void slow.refetch()} />}
      {slow.isPending && <p className="loading">Loading…</p>}
      {data?.total === 0 && <p className="empty">No statement has run yet.</p>}
      {data !== undefined && data.total > 0 && (
        <Table caption="Statements" isCaptionHidden columns={columns}>
          {data.queries.map(({ query, calls, total_ms: total, mean_ms: mean, max_ms: max, rows }) => (
            <tr key={query}>
              <td>
                <code className="one-line statement" title={query}>
                  {query}
                </code>
              </td>
              <td>{calls.toLocaleString()}</td>
              <td>{ms(total)}</td>
              <td>{ms(mean)}</td>
              <td>{ms(max)}</td>
              <td>{rows.toLocaleString()}</td>
              <td>
                <button type="button" className="quiet" onClick={() => open(query)}>
                  Open in SQL
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {data !== undefined && (
        <Pager
          label="statements"
          total={data.total}
          {...{ offset, limit }}
          onMove={(to) => setSearch(to === 0 ? {} : { offset: String(to) })}
        />
      )}
    </>
  );
};
