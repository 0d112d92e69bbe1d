import { type QueryKey, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { counted } from '../client/counted.ts';
import { Dialog } from './dialog.tsx';
import { Failure } from './failure.tsx';

interface BulkDialogProps {
  readonly title: string;
  /** The name of one of them, such as `job`. */
  readonly thing: string;
  /** The filter in words. */
  readonly words: string;
  /** The effect on each of them. */
  readonly effect: string;
  readonly button: string;
  readonly isDangerous?: boolean;
  /** The keys of the count, and of what is stale afterwards. */
  readonly countKey: QueryKey;
  readonly stale: QueryKey;
  /** Changes all that the filter names; with `dryRun` it only counts them. */
  readonly change: (dryRun: boolean) => Promise<{ readonly matched: number; readonly changed: number }>;
  readonly onClose: () => void;
}

const countText = (count: number): string => count.toLocaleString('en');

/** Changes all things of a filter. How many that would be stands there first. */
export const BulkDialog = (props: BulkDialogProps) => {
  const { title, thing, words, effect, button, isDangerous = false, countKey, stale, change, onClose } = props;
  const queries = useQueryClient();
  const preview = useQuery({ queryKey: countKey, queryFn: () => change(true), gcTime: 0 });
  const run = useMutation({
    mutationFn: () => change(false),
    onSettled: () => queries.invalidateQueries({ queryKey: stale }),
  });
  const matched = preview.data?.matched ?? 0;
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{words}</p>
      <p>{effect}</p>
      {preview.isPending && <p className="muted">Counting…</p>}
      {preview.error && <Failure error={preview.error} onRetry={() => void preview.refetch()} />}
      {preview.data && run.data === undefined && (
        <p role="status">
          <strong>{counted(matched, thing)}</strong> would be changed. Nothing is changed yet.
        </p>
      )}
      {run.data && (
        <p role="status" className="good">
          {countText(run.data.changed)} of {countText(run.data.matched)} were changed.
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
            className={isDangerous ? 'danger' : 'primary'}
            disabled={matched === 0 || run.isPending}
            onClick={() => run.mutate()}
          >
            {run.isPending ? 'Working…' : `${button} (${countText(matched)})`}
          </button>
        )}
      </p>
    </Dialog>
  );
};
