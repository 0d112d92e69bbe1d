import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { usePace } from '../../client/live.ts';
import { useProject } from '../../client/project.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Failure } from '../../components/failure.tsx';
import { FirstSteps } from './steps.tsx';
import { Usage } from './usage.tsx';

interface Figure {
  readonly label: string;
  readonly value: string | number;
}

const Figures = ({ figures }: { readonly figures: readonly Figure[] }) => (
  <dl className="figures">
    {figures.map(({ label, value }) => (
      <div key={label}>
        <dt>{label}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

const Queue = () => {
  const { project } = useProject();
  const { data, error } = useQuery({
    queryKey: ['queue', project.id],
    queryFn: () => call('GET /projects/{project_id}/queue', { params: { project_id: project.id } }),
    refetchInterval: usePace(5000),
  });
  return (
    <section className="panel">
      <h2>
        <Link href={`/projects/${project.id}/jobs`}>Jobs</Link>
      </h2>
      {error && <Failure error={error} />}
      <Figures
        figures={[
          { label: 'Waiting', value: data?.waiting ?? '–' },
          { label: 'Running', value: data === undefined ? '–' : `${data.running} of ${data.limit}` },
          { label: 'Ended in the last minute', value: data?.per_minute ?? '–' },
        ]}
      />
    </section>
  );
};

const Traffic = () => {
  const { project } = useProject();
  const { data, error } = useQuery({
    queryKey: ['stats', project.id, '24h'],
    queryFn: () =>
      call('GET /projects/{project_id}/stats', { params: { project_id: project.id }, query: { range: '24h' } }),
  });
  const points = data?.points.filter(({ surface }) => surface !== 'management');
  const sum = (of: 'requests' | 'errors'): string =>
    points?.reduce((total, point) => total + point[of], 0).toLocaleString() ?? '–';
  return (
    <section className="panel">
      <h2>
        <Link href={`/projects/${project.id}/traffic`}>Traffic</Link>
        <span className="muted small"> of the last 24 hours</span>
      </h2>
      {error && <Failure error={error} />}
      <Figures
        figures={[
          { label: 'Requests', value: sum('requests') },
          { label: 'Errors', value: sum('errors') },
        ]}
      />
    </section>
  );
};

/** The state of a project at a glance, and the first steps in it. */
export const HomePage = () => {
  const { project } = useProject();
  return (
    <>
      <h1>{project.name}</h1>
      <Copyable label="Address" text={project.rest_url} />
      <div className="panels">
        <FirstSteps />
        <Queue />
        <Traffic />
        <Usage />
      </div>
    </>
  );
};
