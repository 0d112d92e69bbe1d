import { useQuery } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { bytesText } from '../../client/bytes.ts';
import { useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';

interface Measure {
  readonly label: string;
  readonly used: number;
  /** Null: there is none. */
  readonly limit: number | null;
  readonly isBytes?: boolean;
}

const textOf = (value: number, isBytes: boolean): string => (isBytes ? bytesText(value) : value.toLocaleString());

const Row = ({ label, used, limit, isBytes = false }: Measure) => (
  <div className="used">
    <dt>{label}</dt>
    <dd>
      {textOf(used, isBytes)}
      {limit !== null && <span className="muted"> of {textOf(limit, isBytes)}</span>}
    </dd>
    {limit !== null && (
      <dd>
        <meter
          aria-label={label}
          min={0}
          max={Math.max(1, limit)}
          low={limit * 0.8}
          high={limit * 0.95}
          optimum={0}
          value={used}
        />
      </dd>
    )}
  </div>
);

/** The project's usage, beside the limits of its plan. */
export const Usage = () => {
  const { project } = useProject();
  const usage = useQuery({
    queryKey: ['usage', project.id],
    queryFn: () => call('GET /projects/{project_id}/usage', { params: { project_id: project.id } }),
  });
  const { data } = usage;
  return (
    <section className="panel">
      <h2>
        Usage <span className="tag">{project.plan}</span>
      </h2>
      {usage.error && <Failure error={usage.error} onRetry={() => void usage.refetch()} />}
      {data && (
        <>
          <dl className="usage">
            <Row label="Invocations this month" {...data.invocations} />
            <Row label="Database" {...data.database_bytes} isBytes />
            <Row label="Files" {...data.storage_bytes} isBytes />
            <Row label="Tables" {...data.tables} />
            <Row label="Rows of the largest table" {...data.rows} />
            <Row label="Functions" {...data.functions} />
            <Row label="Logs, results and events" {...data.stored_bytes} isBytes />
          </dl>
          <p className="muted small">
            Invocations count anew from {new Date(data.invocations.resets_at).toLocaleDateString()}.
          </p>
        </>
      )}
    </section>
  );
};
