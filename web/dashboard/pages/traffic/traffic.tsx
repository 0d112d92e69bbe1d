import { useQuery } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { oneOf, useFilters } from '../../client/filters.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { DatabaseSizes } from './sizes.tsx';

type Stats = Operations['GET /projects/{project_id}/stats']['answer'];
type Point = Stats['points'][number];

const ranges = {
  '1h': { text: 'last hour', seconds: 60, count: 60 },
  '24h': { text: 'last 24 hours', seconds: 3600, count: 24 },
  '7d': { text: 'last 7 days', seconds: 3600, count: 168 },
  '30d': { text: 'last 30 days', seconds: 3600, count: 720 },
} as const;
type Range = keyof typeof ranges;

const surfaceTexts: Readonly<Record<Point['surface'], string>> = {
  rest: 'REST',
  graphql: 'GraphQL',
  auth: 'Sign-in of users',
  storage: 'Files',
  functions: 'Functions',
  ai: 'AI',
  flags: 'Flags',
  management: 'Management, this dashboard too',
  other: 'Other',
};

const sum = (points: readonly Point[], of: (point: Point) => number): number =>
  points.reduce((total, point) => total + of(point), 0);

const slowest = (points: readonly Point[]): string => {
  if (points.length === 0) return '–';
  const times = points.map(({ p95_ms: ms }) => ms ?? Infinity);
  const most = Math.max(...times);
  return Number.isFinite(most) ? `${most} ms` : 'over 30 s';
};

const size = (bytes: number): string =>
  `${(bytes / (1024 * 1024)).toLocaleString('en', { maximumFractionDigits: 1 })} MB`;

interface Bar {
  readonly at: number;
  readonly requests: number;
  readonly errors: number;
}

/** One bar for each minute or hour, the empty ones too. */
const barsOf = (points: readonly Point[], { seconds, count }: (typeof ranges)[Range]): Bar[] => {
  const span = seconds * 1000;
  const last = Math.floor(Date.now() / span) * span;
  return Array.from({ length: count }, (_, place) => {
    const at = last - (count - 1 - place) * span;
    const own = points.filter((point) => Date.parse(point.at) === at);
    return { at, requests: sum(own, (point) => point.requests), errors: sum(own, (point) => point.errors) };
  });
};

const height = 100;

/** Requests over time; the part with errors stands at the bottom. The table below has the same in numbers. */
const Chart = ({ bars, text }: { readonly bars: readonly Bar[]; readonly text: string }) => {
  const most = Math.max(1, ...bars.map(({ requests }) => requests));
  const scale = (count: number): number => (count / most) * height;
  return (
    <svg
      className="traffic"
      viewBox={`0 0 ${bars.length} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Requests of the ${text}: at most ${most.toLocaleString('en')} at a time`}
    >
      {bars.map(({ at, requests, errors }, place) => (
        <g key={at}>
          <rect
            x={place + 0.1}
            width={0.8}
            y={height - scale(requests)}
            height={scale(requests)}
            className="requests"
          />
          <rect x={place + 0.1} width={0.8} y={height - scale(errors)} height={scale(errors)} className="errors" />
        </g>
      ))}
    </svg>
  );
};

/** Requests, errors and times of the project by surface, and the size of its database. */
export const TrafficPage = () => {
  const { project } = useProject();
  const filters = useFilters();
  const range = oneOf(Object.keys(ranges) as Range[], filters.get('range')) ?? '24h';
  const stats = useQuery({
    queryKey: ['stats', project.id, range],
    queryFn: () => call('GET /projects/{project_id}/stats', { params: { project_id: project.id }, query: { range } }),
    placeholderData: (present) => present,
    refetchInterval: 30_000,
  });
  const points = stats.data?.points ?? [];
  const present = (Object.keys(surfaceTexts) as Point['surface'][]).filter((each) =>
    points.some(({ surface }) => surface === each),
  );
  const { text } = ranges[range];
  return (
    <>
      <div className="row head">
        <h1>Traffic</h1>
        <label className="inline">
          Time
          <select value={range} onChange={({ target }) => filters.set({ range: target.value })}>
            {Object.entries(ranges).map(([each, { text: words }]) => (
              <option key={each} value={each}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </div>
      {stats.error && <Failure error={stats.error} onRetry={() => void stats.refetch()} />}
      <dl className="figures">
        <div>
          <dt>Requests</dt>
          <dd>{sum(points, (point) => point.requests).toLocaleString('en')}</dd>
        </div>
        <div>
          <dt>Errors (500 and above)</dt>
          <dd>{sum(points, (point) => point.errors).toLocaleString('en')}</dd>
        </div>
        <div>
          <dt>Database</dt>
          <dd>{typeof stats.data?.database_bytes !== 'number' ? '–' : size(stats.data.database_bytes)}</dd>
        </div>
      </dl>
      <Chart bars={barsOf(points, ranges[range])} text={text} />
      {stats.data !== undefined && points.length === 0 && (
        <p className="empty">There was no request. Counts come every ten seconds.</p>
      )}
      {present.length > 0 && (
        <Table caption="By surface" columns={['Surface', 'Requests', 'Errors', 'Slowest 95th percentile']}>
          {present.map((each) => {
            const own = points.filter(({ surface }) => surface === each);
            return (
              <tr key={each}>
                <td>{surfaceTexts[each]}</td>
                <td>{sum(own, (point) => point.requests).toLocaleString('en')}</td>
                <td className={sum(own, (point) => point.errors) > 0 ? 'bad' : ''}>
                  {sum(own, (point) => point.errors).toLocaleString('en')}
                </td>
                <td>{slowest(own)}</td>
              </tr>
            );
          })}
        </Table>
      )}
      <DatabaseSizes />
    </>
  );
};
