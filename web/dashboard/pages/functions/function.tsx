import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call, send } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Code } from '../../components/code.tsx';
import { Failure } from '../../components/failure.tsx';
import { type LogLine, LogLines } from '../../components/log-lines.tsx';
import { Table } from '../../components/table.tsx';

type Fn = Operations['GET /projects/{project_id}/functions/{id}']['answer'];

/** The lines of a run from its first one on, and whether it has ended. */
const useRunLog = (at: string | null): { readonly lines: readonly LogLine[]; readonly ended: boolean } => {
  const [log, setLog] = useState<{ lines: readonly LogLine[]; ended: boolean }>({ lines: [], ended: false });
  useEffect(() => {
    setLog({ lines: [], ended: false });
    if (at === null) return undefined;
    const source = new EventSource(at);
    source.addEventListener('log', ({ data }: MessageEvent<string>) =>
      setLog(({ lines }) => ({ lines: [...lines, JSON.parse(data) as LogLine], ended: false })),
    );
    source.addEventListener('end', () => {
      source.close();
      setLog(({ lines }) => ({ lines, ended: true }));
    });
    return () => source.close();
  }, [at]);
  return log;
};

const parsePayload = (text: string): unknown => (text.trim() === '' ? null : (JSON.parse(text) as unknown));

/** Runs the deployed version with a payload that is kept, and shows its log from the first line on, and its result. */
const Runner = ({ fn }: { readonly fn: Fn }) => {
  const { project } = useProject();
  const name = `payload:${fn.id}`;
  const [payload, setPayload] = useState(() => localStorage.getItem(name) ?? '{ "name": "Ada" }');
  const [jobId, setJobId] = useState<string | null>(null);
  const base = `/projects/${project.id}/functions/${fn.id}`;
  const { lines, ended } = useRunLog(jobId === null ? null : `${base}/invocations/${jobId}`);
  const begin = useMutation({
    mutationFn: async () => {
      setJobId(null);
      const { body } = await send(`${base}/invoke`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', prefer: 'respond-async' },
        body: JSON.stringify({ payload: parsePayload(payload) }),
      });
      return (body as { job_id: string }).job_id;
    },
    onSuccess: setJobId,
  });
  const job = useQuery({
    queryKey: ['job', jobId, ended],
    enabled: jobId !== null && ended,
    queryFn: () =>
      call('GET /projects/{project_id}/jobs/{job_id}', { params: { project_id: project.id, job_id: jobId ?? '' } }),
  });
  return (
    <section>
      <h2>Run</h2>
      <label>
        Payload (JSON)
        <textarea
          rows={3}
          value={payload}
          onChange={({ target }) => {
            localStorage.setItem(name, target.value);
            setPayload(target.value);
          }}
        />
      </label>
      <p className="row">
        <button type="button" className="primary" disabled={begin.isPending} onClick={() => begin.mutate()}>
          Run version {fn.version}
        </button>
        {jobId !== null && <span className="muted">{ended ? (job.data?.status ?? 'ended') : 'running…'}</span>}
      </p>
      {begin.error && <Failure error={begin.error} />}
      {jobId !== null && <LogLines label="Log of the run" lines={lines} />}
      {job.error && <Failure error={job.error} />}
      {job.data && (
        <>
          <h3>Result</h3>
          <pre>
            {JSON.stringify((job.data.result as { result?: unknown } | null)?.result ?? job.data.error, null, 2)}
          </pre>
        </>
      )}
    </section>
  );
};

const Invocations = ({ fn }: { readonly fn: Fn }) => {
  const { project } = useProject();
  const invocations = useQuery({
    queryKey: ['invocations', fn.id],
    queryFn: () =>
      call('GET /projects/{project_id}/functions/{id}/invocations', {
        params: { project_id: project.id, id: fn.id },
        query: { limit: 20 },
      }),
    refetchInterval: 5000,
  });
  if (invocations.error) return <Failure error={invocations.error} />;
  return (
    <Table caption="Latest runs" columns={['Started', 'Status', 'Trigger', 'Took', 'Where the time went (ms)']}>
      {invocations.data?.invocations.map((run) => (
        <tr key={run.id}>
          <td>{run.started_at === null ? '–' : new Date(run.started_at).toLocaleString()}</td>
          <td className={run.status === 'success' ? 'good' : 'bad'}>{run.status}</td>
          <td>{run.trigger}</td>
          <td>{run.duration_ms === null ? '–' : `${run.duration_ms} ms`}</td>
          <td>
            {run.timings === null
              ? '–'
              : Object.entries(run.timings)
                  .map(([part, ms]) => `${part} ${Math.round(ms)}`)
                  .join(' · ')}
          </td>
        </tr>
      ))}
    </Table>
  );
};

const Editor = ({ fn }: { readonly fn: Fn }) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const draftName = `draft:${fn.id}:${fn.version}`;
  const [code, setCode] = useState(() => localStorage.getItem(draftName) ?? fn.code);
  const deploy = useMutation({
    mutationFn: () =>
      call('PATCH /projects/{project_id}/functions/{id}', {
        params: { project_id: project.id, id: fn.id },
        body: { code },
      }),
    onSuccess: () => {
      localStorage.removeItem(draftName);
      void queries.invalidateQueries({ queryKey: ['function', fn.id] });
    },
  });
  const isChanged = code !== fn.code;
  return (
    <section>
      <Code
        label={`Code of ${fn.name}`}
        language={fn.language}
        value={code}
        onChange={(text) => {
          localStorage.setItem(draftName, text);
          setCode(text);
        }}
      />
      {atLeast(role, 'developer') && (
        <p className="row">
          <button
            type="button"
            className="primary"
            disabled={!isChanged || deploy.isPending}
            onClick={() => deploy.mutate()}
          >
            {deploy.isPending ? 'Deploying…' : 'Deploy'}
          </button>
          <span className="muted">
            {isChanged ? 'Not deployed yet; kept in this browser.' : `Version ${fn.version}`}
          </span>
        </p>
      )}
      {deploy.error && <Failure error={deploy.error} />}
    </section>
  );
};

/** One function: its code, a run of it with its log, and its latest runs. */
export const FunctionPage = ({ id }: { readonly id: string }) => {
  const { project, role } = useProject();
  const fn = useQuery({
    queryKey: ['function', id],
    queryFn: () => call('GET /projects/{project_id}/functions/{id}', { params: { project_id: project.id, id } }),
  });
  if (fn.error) return <Failure error={fn.error} onRetry={() => void fn.refetch()} />;
  if (fn.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = fn;
  return (
    <>
      <h1>{data.name}</h1>
      <p className="muted">
        <code>
          POST {project.rest_url}/functions/v1/{data.slug}
        </code>
      </p>
      {data.files === null ? (
        <Editor key={data.version} fn={data} />
      ) : (
        <p className="muted">
          {Object.keys(data.files).length} files: {Object.keys(data.files).join(', ')}. They are deployed over the API.
        </p>
      )}
      {atLeast(role, 'developer') && <Runner fn={data} />}
      <Invocations fn={data} />
    </>
  );
};
