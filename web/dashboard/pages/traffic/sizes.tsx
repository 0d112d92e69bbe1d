import { useQuery } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { bytesText } from '../../client/bytes.ts';
import { oneOf, useFilters } from '../../client/filters.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

type Sizes = Operations['GET /projects/{project_id}/stats/sizes']['answer'];

const hourMs = 3_600_000;
const ranges = {
  '24h': { text: 'last 24 hours', hours: 24 },
  '7d': { text: 'last 7 days', hours: 168 },
  '30d': { text: 'last 30 days', hours: 720 },
  '1y': { text: 'last year', hours: 8784 },
} as const;
type Range = keyof typeof ranges;

const [width, height] = [1000, 100];

/** The corners of the steps: each size lasts until the next one, and the last until now. */
const stepsOf = (points: Sizes['points'], from: number, until: number, most: number): string => {
  const x = (at: number): number => Math.round((Math.max(0, at - from) / (until - from)) * width);
  const y = (bytes: number): number => height - (bytes / most) * height;
  const corners = points.flatMap(({ at, bytes }, place) => {
    const next = points[place + 1];
    const end = next === undefined ? until : Date.parse(next.at);
    return [`${x(Date.parse(at))},${y(bytes)}`, `${x(end)},${y(bytes)}`];
  });
  const [first] = points;
  const start = x(first === undefined ? until : Date.parse(first.at));
  return [`${start},${height}`, ...corners, `${width},${height}`].join(' ');
};

interface ChartProps {
  readonly sizes: Sizes;
  readonly range: Range;
}

/** The size over time under the plan's limit. The sentence above it says the same. */
const Chart = ({ sizes: { points, limit }, range }: ChartProps) => {
  const largest = Math.max(...points.map(({ bytes }) => bytes));
  // A limit far above the sizes would press them to the ground.
  const isLimitShown = largest > limit / 20;
  const most = (isLimitShown ? Math.max(limit, largest) : largest) * 1.05;
  const until = Date.now();
  const limitAt = height - (limit / most) * height;
  return (
    <svg
      className="traffic sizes"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Size of the database in the ${ranges[range].text}: at most ${bytesText(largest)}`}
    >
      <polygon points={stepsOf(points, until - ranges[range].hours * hourMs, until, most)} />
      {isLimitShown && <line x1={0} x2={width} y1={limitAt} y2={limitAt} />}
    </svg>
  );
};

const growth = (bytes: number, before: number | null): string => {
  if (before === null) return 'new among the largest';
  if (bytes === before) return 'as before';
  return bytes > before ? `+ ${bytesText(bytes - before)}` : `− ${bytesText(before - bytes)}`;
};

const LargestTables = ({ tables }: Pick<Sizes, 'tables'>) => (
  <Table caption="Largest tables" columns={['Table', 'Size with indexes', 'Since the beginning']}>
    {tables.map(({ schema, name, bytes, bytes_before: before }) => (
      <tr key={JSON.stringify([schema, name])}>
        <td>{schema === 'public' ? name : `${schema}.${name}`}</td>
        <td>{bytesText(bytes)}</td>
        <td>{growth(bytes, before)}</td>
      </tr>
    ))}
  </Table>
);

const Summary = ({ sizes: { points, limit } }: Pick<ChartProps, 'sizes'>) => {
  const bytes = points.at(-1)?.bytes ?? 0;
  const share = bytes / limit;
  return (
    <p className={share > 0.95 ? 'bad' : share > 0.8 ? 'warn' : ''}>
      {bytesText(bytes)} of {bytesText(limit)} that the plan allows
      {share > 0.8 && ': above the limit nothing can be added'}.
    </p>
  );
};

/** How the project's database has grown, and by which tables. */
export const DatabaseSizes = () => {
  const { project } = useProject();
  const filters = useFilters();
  const range = oneOf(Object.keys(ranges) as Range[], filters.get('sizes')) ?? '30d';
  const sizes = useQuery({
    queryKey: ['sizes', project.id, range],
    queryFn: () =>
      call('GET /projects/{project_id}/stats/sizes', { params: { project_id: project.id }, query: { range } }),
    placeholderData: (present) => present,
  });
  const { data } = sizes;
  return (
    <section>
      <div className="row head">
        <h2>Size of the database</h2>
        <label className="inline">
          Time of the sizes
          <select value={range} onChange={({ target }) => filters.set({ sizes: target.value })}>
            {Object.entries(ranges).map(([each, { text }]) => (
              <option key={each} value={each}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      {sizes.error && <Failure error={sizes.error} onRetry={() => void sizes.refetch()} />}
      {data?.points.length === 0 && (
        <p className="empty">It has not been measured yet: that is done within a minute after something was written.</p>
      )}
      {data !== undefined && data.points.length > 0 && (
        <>
          <Summary sizes={data} />
          <Chart sizes={data} range={range} />
        </>
      )}
      {data !== undefined && data.tables.length > 0 && <LargestTables tables={data.tables} />}
    </section>
  );
};
