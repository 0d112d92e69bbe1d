import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

type Action = 'retry' | 'cancel';
export type BulkFilter = Operations['POST /projects/{project_id}/jobs/retry']['body']['filter'] &
  Operations['POST /projects/{project_id}/jobs/cancel']['body']['filter'];

interface BulkProps {
  readonly action: Action;
  readonly filter: BulkFilter;
  /** The filter in words. */
  readonly words: string;
  readonly onClose: () => void;
}

const texts = {
  retry: {
    title: 'Run these jobs again?',
    button: 'Run them again',
    effect: 'Those that failed, died, expired or were cancelled run again with the same payload, under the same id.',
  },
  cancel: {
    title: 'Cancel these jobs?',
    button: 'Cancel them',
    effect: 'Those that have not ended are cancelled; runs that have begun are stopped.',
  },
} as const;

/** Runs all jobs of a filter again, or cancels them. How many that would be stands there first. */
export const BulkDialog = ({ action, filter, words, onClose }: BulkProps) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const change = (dryRun: boolean) =>
    call(`POST /projects/{project_id}/jobs/${action}`, {
      params: { project_id: project.id },
      body: { filter, dry_run: dryRun },
    });
  const preview = useQuery({ queryKey: ['bulk', project.id, action, filter], queryFn: () => change(true), gcTime: 0 });
  const run = useMutation({
    mutationFn: () => change(false),
    onSettled: () => queries.invalidateQueries({ queryKey: ['jobs'] }),
  });
  const { title, button, effect } = texts[action];
  const matched = preview.data?.matched ?? 0;
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{words}</p>
      <p>{effect}</p>
      {preview.isPending && <p className="muted">Counting…</p>}
      {preview.error && <Failure error={preview.error} onRetry={() => void preview.refetch()} />}
      {preview.data && run.data === undefined && (
        <p role="status">
          <strong>{matched.toLocaleString('en')} jobs</strong> would be changed. Nothing is changed yet.
        </p>
      )}
      {run.data && (
        <p role="status" className="good">
          {run.data.changed.toLocaleString('en')} of {run.data.matched.toLocaleString('en')} were changed.
          {run.data.changed < run.data.matched && ' There are more: do it once more for the rest.'}
        </p>
      )}
      {run.error && <Failure error={run.error} />}
      <p className="row end">
        <button type="button" onClick={onClose}>
          {run.data === undefined ? 'Keep them as they are' : 'Close'}
        </button>
        {(run.data === undefined || run.data.changed < run.data.matched) && (
          <button
            type="button"
            className={action === 'cancel' ? 'danger' : 'primary'}
            disabled={matched === 0 || run.isPending}
            onClick={() => run.mutate()}
          >
            {run.isPending ? 'Working…' : `${button} (${matched.toLocaleString('en')})`}
          </button>
        )}
      </p>
    </Dialog>
  );
};
