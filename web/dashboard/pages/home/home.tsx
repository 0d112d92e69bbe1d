import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSchema } from '../../client/schema.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Failure } from '../../components/failure.tsx';
import { Usage } from './usage.tsx';

interface Step {
  readonly done: boolean;
  readonly label: string;
  readonly at: string;
}

/** The first steps, which tick themselves, and where the project is reached. */
export const HomePage = () => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const base = `/projects/${project.id}`;
  const schema = useSchema();
  const functions = useQuery({
    queryKey: ['functions', project.id],
    queryFn: () => call('GET /projects/{project_id}/functions', { params, query: { limit: 50 } }),
  });
  const queue = useQuery({
    queryKey: ['queue', project.id],
    queryFn: () => call('GET /projects/{project_id}/queue', { params }),
    refetchInterval: 5000,
  });
  const runs = useQuery({
    queryKey: ['jobs', project.id, 'any'],
    queryFn: () => call('GET /projects/{project_id}/jobs', { params, query: { type: 'function.invoke', limit: 1 } }),
  });
  const tables = schema.data?.tables.filter((table) => table.schema === 'public') ?? [];
  const steps: readonly Step[] = [
    { done: tables.length > 0, label: 'Make a table', at: `${base}/sql` },
    { done: (functions.data?.total ?? 0) > 0, label: 'Write a function', at: `${base}/functions` },
    { done: (runs.data?.total ?? 0) > 0, label: 'Run it', at: `${base}/functions` },
  ];
  const error = schema.error ?? functions.error ?? queue.error ?? runs.error;
  return (
    <>
      <h1>{project.name}</h1>
      {error && <Failure error={error} />}
      <Copyable label="Address" text={project.rest_url} />
      <div className="panels">
        <section className="panel">
          <h2>First steps</h2>
          <ul className="steps">
            {steps.map(({ done, label, at }) => (
              <li key={label}>
                <span aria-hidden="true">{done ? '✓' : '○'}</span>
                <Link href={at}>{label}</Link>
                <span className="muted">{done ? 'done' : ''}</span>
              </li>
            ))}
          </ul>
        </section>
        <section className="panel">
          <h2>Jobs</h2>
          <dl className="figures">
            <div>
              <dt>Waiting</dt>
              <dd>{queue.data?.waiting ?? '–'}</dd>
            </div>
            <div>
              <dt>Running</dt>
              <dd>
                {queue.data?.running ?? '–'} of {queue.data?.limit ?? '–'}
              </dd>
            </div>
            <div>
              <dt>Ended in the last minute</dt>
              <dd>{queue.data?.per_minute ?? '–'}</dd>
            </div>
          </dl>
        </section>
        <Usage />
      </div>
    </>
  );
};
