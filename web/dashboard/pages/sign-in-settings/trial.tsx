import { useMutation } from '@tanstack/react-query';
import { Failure } from '../../components/failure.tsx';
import type { Operations } from '../../client/types.ts';

type Outcome = Operations['POST /projects/{project_id}/auth/settings/captcha/test']['answer'];

interface TrialProps {
  readonly label: string;
  /** Asks the service with what the form holds now. */
  readonly ask: () => Promise<Outcome>;
  /** The words for a service that answered well. */
  readonly good: string;
  readonly fields: readonly string[];
}

/** A button that asks an outside service by way of trial, and what came of it. */
export const Trial = ({ label, ask, good, fields }: TrialProps) => {
  const trial = useMutation({ mutationFn: ask });
  const outcome = trial.data;
  return (
    <>
      <p className="row">
        <button type="button" disabled={trial.isPending} onClick={() => trial.mutate()}>
          {trial.isPending ? 'Asking…' : label}
        </button>
        <span role="status" className={outcome?.ok === false ? 'bad' : undefined}>
          {outcome !== undefined && !trial.isPending && `${outcome.error ?? good} (${outcome.latency_ms} ms)`}
        </span>
      </p>
      {trial.error && <Failure error={trial.error} fields={fields} />}
    </>
  );
};
