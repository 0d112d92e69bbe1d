import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSettled } from '../../client/settled.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { ContextInput, type TriedContext, useTriedContext } from './context.tsx';
import { type FlagPatch, editedFields, reasons } from './flag-shapes.ts';

type Evaluate = Operations['POST /projects/{project_id}/flags/{key}/evaluate'];
type Outcome = Evaluate['answer'];

export interface Tried {
  readonly of: TriedContext;
  readonly outcome: Outcome | undefined;
  readonly error: Error | null;
}

/** Evaluates a flag for a context, with the changes that are not saved yet. @param change JSON text of the patch */
export const useEvaluation = (key: string, environment: string, change: string): Tried => {
  const { project } = useProject();
  const of = useTriedContext();
  const patch = useSettled(change);
  const answer = useQuery({
    queryKey: ['flag-evaluation', project.id, environment, key, patch, of.context],
    queryFn: ({ signal }) =>
      call('POST /projects/{project_id}/flags/{key}/evaluate', {
        params: { project_id: project.id, key },
        query: { environment },
        body: { context: of.context ?? {}, explain: true, patch: JSON.parse(patch) as FlagPatch },
        signal,
      }),
    enabled: of.context !== null,
    placeholderData: keepPreviousData,
  });
  return { of, outcome: answer.error === null ? answer.data : undefined, error: answer.error };
};

/** A context to try, and what the flag answers for it. */
export const Evaluation = ({ tried: { of, outcome, error } }: { readonly tried: Tried }) => (
  <section className="evaluation" aria-label="Try it">
    <h2>Try it</h2>
    <ContextInput {...of} />
    {error !== null && <Failure error={error} fields={editedFields} />}
    <div role="status">
      {outcome !== undefined && (
        <dl className="facts">
          <dt>Value</dt>
          <dd>
            <code>{JSON.stringify(outcome.value)}</code>
          </dd>
          <dt>Why</dt>
          <dd>
            {outcome.matched_rule !== null && `Rule ${outcome.matched_rule + 1}: `}
            {reasons[outcome.reason] ?? outcome.reason}
          </dd>
          <dt>Variant</dt>
          <dd>{outcome.variant ?? '–'}</dd>
        </dl>
      )}
    </div>
  </section>
);
