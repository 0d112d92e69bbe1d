import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSchema } from '../../client/schema.ts';
import { Failure } from '../../components/failure.tsx';

interface Step {
  /** Undefined until the API has answered. */
  readonly done: boolean | undefined;
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
  const hasTable = schema.data?.tables.some((table) => table.schema === 'public');
  const hasCalled = keys.data?.api_keys.some(({ last_used_at: at }) => at !== null);
  return {
    steps: [
      { done: hasTable, label: 'Make a table', at: `${base}/tables` },
      { done: functions.data && functions.data.total > 0, label: 'Write a function', at: `${base}/functions` },
      { done: runs.data && runs.data.total > 0, label: 'Run it', at: `${base}/functions` },
      { done: hasCalled, label: 'Use an API key', at: `${base}/keys` },
    ],
    error: schema.error ?? functions.error ?? runs.error ?? keys.error,
  };
};

const marks = { done: '✓', open: '○', unknown: '·' } as const;

const stateOf = ({ done }: Step): keyof typeof marks => {
  if (done === undefined) return 'unknown';
  return done ? 'done' : 'open';
};

/** The first steps in a project, which tick themselves. */
export const FirstSteps = () => {
  const { steps, error } = useSteps();
  return (
    <section className="panel">
      <h2>First steps</h2>
      {error && <Failure error={error} />}
      <ul className="steps">
        {steps.map((step) => (
          <li key={step.label}>
            <span aria-hidden="true">{marks[stateOf(step)]}</span>
            <Link href={step.at}>{step.label}</Link>
            <span className="muted">{step.done ? 'done' : ''}</span>
          </li>
        ))}
      </ul>
    </section>
  );
};
