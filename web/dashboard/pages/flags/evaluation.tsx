import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../../client/api.ts';
import { type Draft, useDraft } from '../../client/draft.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { type FlagPatch, reasons } from './flag-shapes.ts';

type Evaluate = Operations['POST /projects/{project_id}/flags/{key}/evaluate'];
type Outcome = Evaluate['answer'];

const pauseMs = 250;

/** The value once it has not changed for a moment. */
const useSettled = <T,>(value: T): T => {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
};

const parsed = (text: string): { context: Record<string, unknown> } | { fault: string } => {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { context: value as Record<string, unknown> };
    return { fault: 'It must be an object, such as {"plan": "pro"}.' };
  } catch {
    return { fault: 'This is not JSON yet.' };
  }
};

const firstContext = '{\n  "targetingKey": "user-1",\n  "plan": "pro"\n}';

export interface Tried {
  readonly draft: Draft;
  readonly fault: string | null;
  readonly outcome: Outcome | undefined;
  readonly error: Error | null;
}

/** Evaluates a flag for a context, with the changes that are not saved yet. @param change JSON text of the patch */
export const useEvaluation = (key: string, environment: string, change: string): Tried => {
  const { project } = useProject();
  const draft = useDraft(`${project.id}:flag-context`, firstContext);
  const settled = useSettled(`${draft.text}\0${change}`);
  const [text = '', patch = '{}'] = settled.split('\0');
  const context = parsed(text);
  const answer = useQuery({
    queryKey: ['flag-evaluation', project.id, environment, key, settled],
    queryFn: ({ signal }) =>
      call('POST /projects/{project_id}/flags/{key}/evaluate', {
        params: { project_id: project.id, key },
        query: { environment },
        body: {
          context: 'context' in context ? context.context : {},
          explain: true,
          patch: JSON.parse(patch) as FlagPatch,
        },
        signal,
      }),
    enabled: 'context' in context,
    placeholderData: keepPreviousData,
  });
  return {
    draft,
    fault: 'fault' in context ? context.fault : null,
    outcome: answer.error === null ? answer.data : undefined,
    error: answer.error,
  };
};

/** A context to try, and what the flag answers for it. */
export const Evaluation = ({ tried: { draft, fault, outcome, error } }: { readonly tried: Tried }) => (
  <section className="evaluation" aria-label="Try it">
    <h2>Try it</h2>
    <label>
      Context: whoever the flag is asked for
      <textarea
        rows={6}
        value={draft.text}
        spellCheck={false}
        aria-invalid={fault !== null}
        onChange={({ target }) => draft.change(target.value)}
      />
    </label>
    {fault !== null && <p className="bad">{fault}</p>}
    {error !== null && <Failure error={error} />}
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
