import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSchema } from '../../client/schema.ts';
import { Failure } from '../../components/failure.tsx';

interface Step {
  readonly done: boolean;
  readonly label: string;
  readonly at: string;
}

const useSteps = (): { readonly steps: readonly Step[]; readonly error: Error | null } => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const schema = useSchema();
  const functions = useQuery({
    queryKey: ['functions', project.id],
    queryFn: () => call('GET /projects/{project_id}/functions', { params, query: { limit: 50 } }),
  });
  const runs = useQuery({
    queryKey: ['jobs', project.id, 'any'],
    queryFn: () => call('GET /projects/{project_id}/jobs', { params, query: { type: 'function.invoke', limit: 1 } }),
  });
  const keys = useQuery({
    queryKey: ['keys', project.id, 'used'],
    queryFn: () => call('GET /projects/{project_id}/api-keys', { params, query: { limit: 50 } }),
  });
  const base = `/projects/${project.id}`;
  const hasTable = schema.data?.tables.some((table) => table.schema === 'public') === true;
  const hasCalled = keys.data?.api_keys.some(({ last_used_at: at }) => at !== null) === true;
  return {
    steps: [
      { done: hasTable, label: 'Make a table', at: `${base}/tables` },
      { done: (functions.data?.total ?? 0) > 0, label: 'Write a function', at: `${base}/functions` },
      { done: (runs.data?.total ?? 0) > 0, label: 'Run it', at: `${base}/functions` },
      { done: hasCalled, label: 'Use an API key', at: `${base}/keys` },
    ],
    error: schema.error ?? functions.error ?? runs.error ?? keys.error,
  };
};

/** The first steps in a project, which tick themselves. */
export const FirstSteps = () => {
  const { steps, error } = useSteps();
  return (
    <section className="panel">
      <h2>First steps</h2>
      {error && <Failure error={error} />}
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
  );
};
