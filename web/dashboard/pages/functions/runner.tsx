import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Link } from 'wouter';
import { call, send } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { LogLines } from '../../components/log-lines.tsx';
import { useRunLog } from './run-log.ts';
import { type Draft, type Fn, bodyOf } from './source.ts';
import { TimingBars } from './timings.tsx';

interface RunnerProps {
  readonly fn: Fn;
  readonly draft: Draft;
  /** Counts the presses of Ctrl-Enter in the editor; each runs once. */
  readonly pressed: number;
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

type What = 'draft' | 'deployed';

/** Begins a run that is not waited for. Payloads go as they are written, so that no number changes. */
const useBegin = (fn: Fn, draft: Draft) => {
  const { project } = useProject();
  const base = `/projects/${project.id}/functions/${fn.id}`;
  return async (what: What, payload: string): Promise<string> => {
    const text = payload.trim() === '' ? 'null' : payload;
    const { body } = await send(`${base}/${what === 'draft' ? 'drafts' : 'invoke'}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', prefer: 'respond-async' },
      body:
        what === 'draft'
          ? JSON.stringify({ ...bodyOf(draft.source, fn.entrypoint), payload: text })
          : `{"payload":${text}}`,
    });
    return (body as { job_id: string }).job_id;
  };
};

/** How a run ended: result or error, and where its time went. */
const Outcome = ({ jobId, fn }: { readonly jobId: string; readonly fn: Fn }) => {
  const { project } = useProject();
  const { lines, ended, isInterrupted } = useRunLog(`/projects/${project.id}/functions/${fn.id}/invocations/${jobId}`);
  const queries = useQueryClient();
  const job = useQuery({
    queryKey: ['job', jobId, 'result'],
    enabled: ended !== null,
    queryFn: () =>
      call('GET /projects/{project_id}/jobs/{job_id}', { params: { project_id: project.id, job_id: jobId } }),
  });
  useEffect(() => {
    if (ended !== null) void queries.invalidateQueries({ queryKey: ['invocations', fn.id] });
  }, [ended, queries, fn.id]);
  return (
    <>
      <p className="row" role="status">
        <span className={ended === null ? 'muted' : ended.status === 'success' ? 'good' : 'bad'}>
          {ended?.status ?? (isInterrupted ? 'The connection was lost and is made again…' : 'running…')}
        </span>
        {ended !== null && ended.duration_ms !== null && <span className="muted">{ended.duration_ms} ms</span>}
        <Link href={`/projects/${project.id}/jobs/${jobId}`}>Its job</Link>
      </p>
      <LogLines label="Log of the run" lines={lines} />
      {ended?.error && (
        <>
          <h3>Error</h3>
          <pre className="bad">{ended.error.stack || `${ended.error.name}: ${ended.error.message}`}</pre>
        </>
      )}
      {job.error && <Failure error={job.error} onRetry={() => void job.refetch()} />}
      {job.data && ended !== null && ended.error === null && (
        <>
          <h3>Result</h3>
          <pre>
            {JSON.stringify((job.data.result as { result?: unknown } | null)?.result ?? job.data.error, null, 2)}
          </pre>
        </>
      )}
      {ended?.timings && <TimingBars timings={ended.timings} />}
    </>
  );
};

/** Runs the draft or what is deployed, with a payload that is kept, and shows its log from the first line on. */
export const Runner = ({ fn, draft, pressed }: RunnerProps) => {
  const name = `payload:${fn.id}`;
  const [payload, setPayload] = useState(() => localStorage.getItem(name) ?? '{ "name": "Ada" }');
  const [jobId, setJobId] = useState<string | null>(null);
  const start = useBegin(fn, draft);
  const isGood = payload.trim() === '' || isJson(payload);
  const begin = useMutation({
    mutationFn: async (what: What) => {
      setJobId(null);
      return start(what, payload);
    },
    onSuccess: setJobId,
  });
  const what: What = draft.isChanged ? 'draft' : 'deployed';
  const { mutate } = begin;
  useEffect(() => {
    if (pressed > 0 && isGood) mutate(what);
    // A press counts once, with the text and the payload of then.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [pressed]);
  return (
    <section aria-label="Run">
      <h2>Run</h2>
      <label>
        Payload (JSON)
        <textarea
          rows={3}
          value={payload}
          aria-invalid={!isGood}
          spellCheck={false}
          onChange={({ target }) => {
            localStorage.setItem(name, target.value);
            setPayload(target.value);
          }}
        />
      </label>
      {!isGood && (
        <p className="bad" role="status">
          This is not JSON yet. Texts stand in double quotes: <code>{'{ "name": "Ada" }'}</code>
        </p>
      )}
      <p className="row">
        {draft.isChanged && (
          <button
            type="button"
            className="primary"
            disabled={begin.isPending || !isGood}
            onClick={() => mutate('draft')}
          >
            Run the draft
          </button>
        )}
        <button
          type="button"
          className={draft.isChanged ? '' : 'primary'}
          disabled={begin.isPending || !isGood}
          onClick={() => mutate('deployed')}
        >
          Run version {fn.version}
        </button>
        <span className="muted">
          Ctrl-Enter in the code runs {draft.isChanged ? 'the draft, without deploying it' : 'it, too'}.
        </span>
      </p>
      {begin.error && <Failure error={begin.error} />}
      {jobId !== null && <Outcome key={jobId} jobId={jobId} fn={fn} />}
    </section>
  );
};
