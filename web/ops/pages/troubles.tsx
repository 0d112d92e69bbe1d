import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Failure } from '../../dashboard/components/failure.tsx';
import { type Trouble, call } from '../client/api.ts';

const words = { bad: 'trouble', warn: 'warning' } as const;

const Entry = ({ severity, title, detail, view }: Trouble) => (
  <li>
    <span className={`tag ${severity}`}>{words[severity]}</span>
    <div>
      {view === '' ? <strong>{title}</strong> : <Link href={`/${view}`}>{title}</Link>}
      <p className="muted">{detail}</p>
    </div>
  </li>
);

/** The present problems; causes stand before their consequences. */
export const Troubles = () => {
  const found = useQuery({
    queryKey: ['trouble'],
    queryFn: () => call('GET /ops/api/trouble', {}),
    refetchInterval: 5000,
  });
  const troubles = found.data?.troubles;
  return (
    <section className="panel" aria-labelledby="wrong-now">
      <h2 id="wrong-now">What is wrong now</h2>
      {found.error && <Failure error={found.error} onRetry={() => void found.refetch()} />}
      <ol className="troubles">
        {troubles?.map((trouble) => (
          <Entry key={trouble.title} {...trouble} />
        ))}
        {troubles?.length === 0 && (
          <li>
            <span className="tag good">fine</span>
            <p>Nothing that this page knows of.</p>
          </li>
        )}
      </ol>
    </section>
  );
};
