import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { counted } from '../../client/counted.ts';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { deliveryStatuses, deliveryTexts } from './shapes.ts';

type Body = Operations['POST /projects/{project_id}/integrations/webhooks/{webhook_id}/replay']['body'];
type Status = NonNullable<Body['statuses']>[number];

const replayed = deliveryStatuses.filter((status): status is Status => status !== 'pending');
const usual: ReadonlySet<Status> = new Set(['failed', 'exhausted', 'skipped']);

/** A time as `datetime-local` fields have it, by the reader's own clock. */
const localTime = (at: Date): string =>
  new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

const hourAgo = (): string => localTime(new Date(Date.now() - 3_600_000));

const bodyOf = (form: HTMLFormElement): Body => {
  const until = fieldOf(form, 'until');
  const statuses = replayed.filter((status) => new FormData(form).has(status));
  return {
    since: new Date(fieldOf(form, 'since')).toISOString(),
    ...(until !== '' && { until: new Date(until).toISOString() }),
    statuses,
  };
};

/** Sends the deliveries of a time once more; how many that are stands there before anything is sent. */
export const ReplayForm = ({ webhookId }: { readonly webhookId: string }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [preview, setPreview] = useState<{ readonly body: Body; readonly count: number } | null>(null);
  const send = (body: Body) =>
    call('POST /projects/{project_id}/integrations/webhooks/{webhook_id}/replay', {
      params: { project_id: project.id, webhook_id: webhookId },
      body,
    });
  const count = useMutation({
    mutationFn: async (body: Body) => ({ body, count: (await send({ ...body, dry_run: true })).matched ?? 0 }),
    onSuccess: setPreview,
  });
  const replay = useMutation({
    mutationFn: (body: Body) => send(body),
    onSuccess: () => {
      setPreview(null);
      return queries.invalidateQueries({ queryKey: ['deliveries', project.id] });
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    replay.reset();
    count.mutate(bodyOf(event.currentTarget));
  };
  return (
    <section className="panel" aria-label="Replay">
      <h2>Send the deliveries of a time once more</h2>
      <p className="muted">Under the same ids: a receiver that keeps them sees which ones it has had already.</p>
      <form onSubmit={submit} onChange={() => setPreview(null)}>
        <div className="row">
          <label>
            Made since
            <input name="since" type="datetime-local" required defaultValue={hourAgo()} />
          </label>
          <label>
            Until (optional)
            <input name="until" type="datetime-local" />
          </label>
        </div>
        <fieldset>
          <legend>Which of them</legend>
          {replayed.map((status) => (
            <label key={status} className="inline">
              <input type="checkbox" name={status} defaultChecked={usual.has(status)} />
              {status}: {deliveryTexts[status]}
            </label>
          ))}
        </fieldset>
        <p className="row">
          <button type="submit" disabled={count.isPending}>
            Count them
          </button>
          {preview !== null && (
            <button
              type="button"
              className="primary"
              disabled={preview.count === 0 || replay.isPending}
              onClick={() => replay.mutate(preview.body)}
            >
              {replay.isPending ? 'Sending…' : `Send ${preview.count.toLocaleString('en')} once more`}
            </button>
          )}
          <span role="status">
            {preview !== null && `${counted(preview.count, 'delivery', 'deliveries')} found. Nothing is sent yet.`}
            {replay.data && `${replay.data.replayed.toLocaleString('en')} are sent once more.`}
          </span>
        </p>
      </form>
      {(count.error ?? replay.error) && <Failure error={count.error ?? replay.error} />}
    </section>
  );
};
