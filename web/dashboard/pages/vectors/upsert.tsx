import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { call, send } from '../../client/api.ts';
import { useDraft } from '../../client/draft.ts';
import { textOf } from '../../client/exact-json.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { documentsIn } from './documents.ts';

const pollMs = 700;

/** A job that embeds documents, until it has ended. */
const Progress = ({ id, onEnd }: { readonly id: string; readonly onEnd: () => void }) => {
  const { project } = useProject();
  const job = useQuery({
    queryKey: ['job', id],
    queryFn: () => call('GET /projects/{project_id}/jobs/{job_id}', { params: { project_id: project.id, job_id: id } }),
    refetchInterval: ({ state }) => (state.data?.finished_at === null ? pollMs : false),
  });
  const ended = job.data?.finished_at ?? null;
  useEffect(() => {
    if (ended !== null) onEnd();
  }, [ended, onEnd]);
  return (
    <p role="status">
      <Link href={`/projects/${project.id}/jobs/${id}`}>The job</Link>{' '}
      <span className={job.data?.status === 'succeeded' ? 'good' : ''}>{job.data?.status ?? 'is queued'}</span>
      {job.data?.result !== undefined && job.data.result !== null && <code> {textOf(job.data.result)}</code>}
      {job.data?.error && <span className="bad"> {job.data.error.message}</span>}
    </p>
  );
};

/** Texts that become documents of a collection; a job embeds them. */
export const Upsert = ({ collection, model }: { readonly collection: string; readonly model: string | null }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const draft = useDraft(`vectors:${project.id}:${collection}`, '');
  const [job, setJob] = useState<string | null>(null);
  const models = useQuery({
    queryKey: ['models', project.id],
    queryFn: () => call('GET /projects/{project_id}/ai/models', { params: { project_id: project.id } }),
    staleTime: 60_000,
  });
  const embedding = (models.data?.models ?? []).filter(({ type }) => type === 'embedding');
  const upsert = useMutation({
    mutationFn: async (wanted: string) => {
      const at = `/projects/${project.id}/ai/vectors/collections/${encodeURIComponent(collection)}/upsert`;
      const body = { documents: documentsIn(draft.text), ...(wanted !== '' && { model: wanted }) };
      const headers = { 'content-type': 'application/json', prefer: 'respond-async' };
      return (await send(at, { method: 'POST', headers, body: JSON.stringify(body) })).body as { job_id: string };
    },
    onSuccess: ({ job_id: id }) => {
      setJob(id);
      draft.forget();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    upsert.mutate(fieldOf(event.currentTarget, 'model'));
  };
  const [reload] = useState(() => () => {
    void queries.invalidateQueries({ queryKey: ['vectors', project.id] });
  });
  return (
    <form onSubmit={submit}>
      <label>
        Texts: each paragraph is a document, or a JSON list of {'{id, content, metadata}'}
        <textarea
          required
          rows={5}
          dir="auto"
          value={draft.text}
          onChange={({ target }) => draft.change(target.value)}
        />
      </label>
      <div className="row">
        {model === null && (
          <label className="inline">
            Model
            <select name="model" required>
              {embedding.map(({ provider, id }) => (
                <option key={`${provider}/${id}`}>{`${provider}/${id}`}</option>
              ))}
            </select>
          </label>
        )}
        <button type="submit" className="primary" disabled={upsert.isPending}>
          Add the texts
        </button>
      </div>
      {models.data && embedding.length === 0 && (
        <p className="muted">No model embeds texts yet: add the key of a provider on the page “AI”.</p>
      )}
      {(upsert.error ?? models.error) && <Failure error={upsert.error ?? models.error} />}
      {job !== null && <Progress key={job} id={job} onEnd={reload} />}
    </form>
  );
};
