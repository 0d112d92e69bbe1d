import { useInfiniteQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { LogLines } from '../../components/log-lines.tsx';

const levels = ['debug', 'info', 'warn', 'error'] as const;

/** The logs of all functions of the project, searched by text and level. */
export const LogsPage = () => {
  const { project } = useProject();
  const [search, setSearch] = useSearchParams();
  const [q, level] = [search.get('q') ?? '', search.get('level') ?? ''];
  const logs = useInfiniteQuery({
    queryKey: ['logs', project.id, q, level],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      call('GET /projects/{project_id}/logs', {
        params: { project_id: project.id },
        query: { limit: 100, q, level, cursor: pageParam },
      }),
    getNextPageParam: ({ next }) => next ?? undefined,
    refetchInterval: (query) => (query.state.data?.pages.length === 1 ? 5000 : false),
  });
  const lines = (logs.data?.pages ?? []).flatMap((page) => page.logs).toReversed();
  return (
    <>
      <h1>Logs</h1>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          setSearch({ q: fieldOf(form, 'q'), level: fieldOf(form, 'level') });
        }}
      >
        <label className="inline">
          Text
          <input name="q" defaultValue={q} />
        </label>
        <label className="inline">
          Level
          <select name="level" defaultValue={level}>
            <option value="">any</option>
            {levels.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <button type="submit">Search</button>
      </form>
      {logs.error && <Failure error={logs.error} onRetry={() => void logs.refetch()} />}
      {logs.hasNextPage && (
        <button type="button" disabled={logs.isFetchingNextPage} onClick={() => void logs.fetchNextPage()}>
          Earlier lines
        </button>
      )}
      <LogLines label="Logs of the project" lines={lines} />
      {logs.data !== undefined && lines.length === 0 && <p className="empty">No line matches.</p>}
    </>
  );
};
