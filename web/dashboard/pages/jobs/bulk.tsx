import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { BulkDialog } from '../../components/bulk-dialog.tsx';

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

/** Runs all jobs of a filter again, or cancels them. */
export const BulkJobs = ({ action, filter, words, onClose }: BulkProps) => {
  const { project } = useProject();
  return (
    <BulkDialog
      {...texts[action]}
      thing="job"
      words={words}
      isDangerous={action === 'cancel'}
      countKey={['bulk', project.id, action, filter]}
      stale={['jobs']}
      change={(dryRun) =>
        call(`POST /projects/{project_id}/jobs/${action}`, {
          params: { project_id: project.id },
          body: { filter, dry_run: dryRun },
        })
      }
      onClose={onClose}
    />
  );
};
