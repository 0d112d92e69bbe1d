import { useQuery } from '@tanstack/react-query';
import { Suspense, lazy } from 'react';
import { Failure } from '../../dashboard/components/failure.tsx';
import { type Queue, type Series, call } from '../client/api.ts';
import { useLive } from '../client/live.ts';
import { compactText, numberText, secondsText } from '../client/words.ts';
import { Heading } from '../components/heading.tsx';
import { QueueCard } from './queue-card.tsx';
import { Troubles } from './troubles.tsx';

const Charts = lazy(async () => ({ default: (await import('./charts.tsx')).Charts }));

/** The sum of what is known; null where nothing is. */
const total = (queues: readonly Queue[], of: (queue: Queue) => number | null): number | null => {
  const values = queues.map(of).filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
};

const worst = (queues: readonly Queue[], of: (queue: Queue) => number | null): number | null => {
  const values = queues.map(of).filter((value) => value !== null);
  return values.length === 0 ? null : Math.max(...values);
};

const Summary = () => {
  const { snapshot } = useLive();
  const { queues = [], workers = [], redis = false } = snapshot ?? {};
  const figures = {
    Waiting: compactText(total(queues, (queue) => queue.waiting)),
    Running: compactText(total(queues, (queue) => queue.running)),
    'Oldest wait': secondsText(worst(queues, (queue) => queue.oldest_wait_seconds)),
    'Accepted / min': compactText(total(queues, (queue) => queue.accepted.minute)),
    'Finished / min': compactText(total(queues, (queue) => queue.finished.minute)),
    'Dead letters': compactText(total(queues, (queue) => queue.dead)),
    Workers: redis ? numberText(workers.length) : '–',
  };
  return (
    <dl className="figures panel">
      {Object.entries(figures).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
};

const ChartsOf = ({ series }: { readonly series: Series | undefined }) => (
  <div className="charts">
    {series !== undefined && (
      <Suspense>
        <Charts series={series} />
      </Suspense>
    )}
  </div>
);

/** All job types at a glance, a second old at most. */
export const OverviewPage = () => {
  const { snapshot } = useLive();
  const charts = useQuery({
    queryKey: ['charts'],
    queryFn: () => call('GET /ops/api/charts', {}),
    refetchInterval: 10_000,
  });
  return (
    <>
      <Heading title="Overview" />
      <Troubles />
      {charts.error && <Failure error={charts.error} onRetry={() => void charts.refetch()} />}
      <Summary />
      <div className="queue-cards">
        {snapshot?.queues.map((queue) => (
          <QueueCard key={queue.type} queue={queue}>
            <ChartsOf series={charts.data?.types.find(({ type }) => type === queue.type)} />
          </QueueCard>
        ))}
      </div>
    </>
  );
};
