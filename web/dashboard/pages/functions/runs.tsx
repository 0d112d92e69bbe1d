import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { counted } from '../../client/counted.ts';
import { call, send } from '../../client/api.ts';
import { type Filters, oneOf, useFilters } from '../../client/filters.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { LogLines } from '../../components/log-lines.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import type { Fn } from './source.ts';
import { TimingBars } from './timings.tsx';

type Query = NonNullable<Operations['GET /projects/{project_id}/functions/{id}/invocations']['query']>;
type Run = Operations['GET /projects/{project_id}/functions/{id}/invocations/{iid}']['answer'];

const statuses = [
  'success',
  'error',
  'timeout',
  'memory_limit',
  'cpu_limit',
  'result_too_large',
  'crashed',
  'cancelled',
] as const;
const triggers = ['api', 'dashboard', 'cron', 'webhook', 'job', 'event'] as const;
const limit = 50;

const versionText = (version: number): string => (version < 0 ? 'draft' : String(version));

const Choice = ({
  label,
  name,
  values,
  filters,
}: {
  readonly label: string;
  readonly name: string;
  readonly values: readonly string[];
  readonly filters: Filters;
}) => (
  <label className="inline">
    {label}
    <select value={filters.get(name)} onChange={({ target }) => filters.set({ [name]: target.value })}>
      <option value="">any</option>
      {values.map((value) => (
        <option key={value}>{value}</option>
      ))}
    </select>
  </label>
);

/** Runs the payload of an earlier run again and shows the new run. */
const Rerun = ({ fn, run }: { readonly fn: Fn; readonly run: Run }) => {
  const { project } = useProject();
  const [here, go] = useLocation();
  const queries = useQueryClient();
  const rerun = useMutation({
    mutationFn: async (version: 'current' | 'original') => {
      const at = `/projects/${project.id}/functions/${fn.id}/invocations/${run.id}/rerun?version=${version}`;
      const headers = { 'content-type': 'application/json', prefer: 'respond-async' };
      const { body } = await send(at, { method: 'POST', headers, body: '{}' });
      return (body as { job_id: string }).job_id;
    },
    onSuccess: (jobId) => {
      void queries.invalidateQueries({ queryKey: ['invocations', fn.id] });
      go(`${here}?tab=runs&run=${jobId}`);
    },
  });
  return (
    <>
      <p className="row">
        <button type="button" className="primary" disabled={rerun.isPending} onClick={() => rerun.mutate('current')}>
          Run its payload again on version {fn.version}
        </button>
        {run.version !== fn.version && (
          <button type="button" disabled={rerun.isPending} onClick={() => rerun.mutate('original')}>
            Run it again on {run.version < 0 ? 'the draft' : `version ${run.version}`}
          </button>
        )}
      </p>
      {rerun.error && <Failure error={rerun.error} />}
    </>
  );
};

const goesOn = ({ status }: Run): boolean => ['queued', 'running', 'waiting'].includes(status);

const RunDetail = ({ fn, id }: { readonly fn: Fn; readonly id: string }) => {
  const { project, role } = useProject();
  const [here] = useLocation();
  const pace = usePace(1000);
  const run = useQuery({
    queryKey: ['invocation', id],
    queryFn: () =>
      call('GET /projects/{project_id}/functions/{id}/invocations/{iid}', {
        params: { project_id: project.id, id: fn.id, iid: id },
      }),
    refetchInterval: ({ state }) => (state.data !== undefined && goesOn(state.data) ? pace : false),
  });
  const back = <Link href={`${here}?tab=runs`}>All runs</Link>;
  if (run.data === undefined && run.error)
    return (
      <>
        {back}
        <Failure error={run.error} onRetry={() => void run.refetch()} />
      </>
    );
  if (run.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = run;
  return (
    <section aria-label="A run">
      <p>{back}</p>
      <h2>
        Run <code>{data.id}</code>
      </h2>
      <dl className="facts">
        <dt>Status</dt>
        <dd className={data.status === 'success' ? 'good' : goesOn(data) ? '' : 'bad'}>{data.status}</dd>
        <dt>Started</dt>
        <dd>
          <Time at={data.started_at} />
        </dd>
        <dt>Took</dt>
        <dd>{data.duration_ms === null ? '–' : `${data.duration_ms} ms`}</dd>
        <dt>Memory, CPU</dt>
        <dd>
          {data.memory_peak_mb === null ? '–' : `${data.memory_peak_mb} MB`},{' '}
          {data.cpu_ms === null ? '–' : `${data.cpu_ms} ms`}
        </dd>
        <dt>Version, trigger</dt>
        <dd>
          {versionText(data.version)}, {data.trigger}
        </dd>
        <dt>Job</dt>
        <dd>
          <Link href={`/projects/${project.id}/jobs/${data.id}`}>attempts, steps and result</Link>
        </dd>
      </dl>
      {atLeast(role, 'developer') && <Rerun fn={fn} run={data} />}
      {data.error && (
        <>
          <h3>Error</h3>
          <pre className="bad">{data.error.stack || `${data.error.name}: ${data.error.message}`}</pre>
        </>
      )}
      {data.timings && <TimingBars timings={data.timings} />}
      <h3>Log</h3>
      {data.logs_truncated && <p className="muted">The log was longer than what is kept; this is its beginning.</p>}
      {data.logs.length === 0 ? (
        <p className="muted">It logged nothing.</p>
      ) : (
        <LogLines label="Log of the run" lines={data.logs} />
      )}
    </section>
  );
};

const slowest = (timings: Run['timings']): string => {
  const [part] = Object.entries(timings ?? {}).toSorted(([, a], [, b]) => b - a);
  return part === undefined ? '–' : `${part[0]} ${Math.round(part[1])} ms`;
};

const RunList = ({ fn }: { readonly fn: Fn }) => {
  const { project } = useProject();
  const [here] = useLocation();
  const filters = useFilters();
  const [status, trigger] = [oneOf(statuses, filters.get('status')), oneOf(triggers, filters.get('trigger'))];
  const version = filters.get('version');
  const query: Query = {
    limit,
    offset: filters.offset,
    ...(status && { status }),
    ...(trigger && { trigger }),
    ...(/^[1-9]\d{0,8}$/.test(version) && { version }),
  };
  const runs = useQuery({
    queryKey: ['invocations', fn.id, query],
    queryFn: () =>
      call('GET /projects/{project_id}/functions/{id}/invocations', {
        params: { project_id: project.id, id: fn.id },
        query,
      }),
    placeholderData: (present) => present,
  });
  return (
    <>
      <div className="row">
        <Choice label="Status" name="status" values={statuses} filters={filters} />
        <Choice label="Trigger" name="trigger" values={triggers} filters={filters} />
        <label className="inline">
          Version
          <input
            type="number"
            min={1}
            value={version}
            onChange={({ target }) => filters.set({ version: target.value })}
          />
        </label>
        <button type="button" onClick={() => void runs.refetch()}>
          Refresh
        </button>
        <span className="muted">{runs.data && counted(runs.data.total, 'run')}</span>
      </div>
      {runs.error && <Failure error={runs.error} onRetry={() => void runs.refetch()} />}
      {runs.data?.total === 0 && (
        <p className="empty">No run has ended{status || trigger || version ? ' like that' : ' yet'}.</p>
      )}
      {runs.data !== undefined && runs.data.total > 0 && (
        <Table
          caption="Runs"
          isCaptionHidden
          columns={['Started', 'Status', 'Took', 'Most of it', 'Version', 'Trigger', 'Error or last line']}
        >
          {runs.data.invocations.map((run) => (
            <tr key={run.id}>
              <td>
                <Link href={`${here}?tab=runs&run=${run.id}`}>
                  <Time at={run.started_at} />
                </Link>
              </td>
              <td className={run.status === 'success' ? 'good' : 'bad'}>{run.status}</td>
              <td>{run.duration_ms === null ? '–' : `${run.duration_ms} ms`}</td>
              <td>{slowest(run.timings)}</td>
              <td>{versionText(run.version)}</td>
              <td>{run.trigger}</td>
              <td className="one-line">{run.error?.message ?? run.logs.at(-1)?.message}</td>
            </tr>
          ))}
        </Table>
      )}
      <Pager offset={filters.offset} limit={limit} total={runs.data?.total ?? 0} label="runs" onMove={filters.move} />
    </>
  );
};

/** The runs of a function with filters, or the one that the address names. */
export const Runs = ({ fn }: { readonly fn: Fn }) => {
  const id = useFilters().get('run');
  return id === '' ? <RunList fn={fn} /> : <RunDetail key={id} fn={fn} id={id} />;
};
