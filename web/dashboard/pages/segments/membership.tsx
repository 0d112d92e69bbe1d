import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSettled } from '../../client/settled.ts';
import { Failure } from '../../components/failure.tsx';
import type { Condition } from '../flags/flag-shapes.ts';
import { ContextInput, type TriedContext, useTriedContext } from '../flags/context.tsx';
import { keysOf } from './segment-shapes.ts';

interface Verdict {
  readonly belongs: boolean;
  /** The reason in words. */
  readonly why: string;
}

const words = ({ belongs, why }: Verdict): string =>
  belongs ? `Belongs to it: ${why}` : `Does not belong to it: ${why}`;

interface PanelProps {
  readonly of: TriedContext;
  readonly verdict: Verdict | null;
  readonly error: Error | null;
}

const Panel = ({ of, verdict, error }: PanelProps) => (
  <section className="evaluation" aria-label="Try it">
    <h2>Try it</h2>
    <ContextInput {...of} />
    {error !== null && <Failure error={error} fields={['conditions']} />}
    <p role="status" className={verdict?.belongs === true ? 'good' : undefined}>
      {verdict !== null && words(verdict)}
    </p>
  </section>
);

/** Asks the API whether a context fulfils conditions that need not be saved. */
export const useConditionsTrial = (key: string, conditions: readonly Condition[] | null): PanelProps => {
  const { project } = useProject();
  const of = useTriedContext();
  const settled = useSettled(JSON.stringify(conditions));
  const answer = useQuery({
    queryKey: ['segment-evaluation', project.id, key, settled, of.context],
    queryFn: ({ signal }) =>
      call('POST /projects/{project_id}/segments/{key}/evaluate', {
        params: { project_id: project.id, key },
        body: { context: of.context ?? {}, conditions: JSON.parse(settled) as readonly Condition[] },
        signal,
      }),
    enabled: of.context !== null && settled !== 'null',
    placeholderData: keepPreviousData,
  });
  const found = answer.error === null ? answer.data : undefined;
  const { failed = null } = found ?? {};
  const why =
    failed === null ? 'every condition matches.' : `${failed.attribute} ${failed.operator} is the first that fails.`;
  return { of, verdict: found === undefined ? null : { belongs: found.belongs, why }, error: answer.error };
};

const verdictOfKeys = (of: TriedContext, text: string): Verdict | null => {
  if (of.context === null) return null;
  const { targetingKey: key } = of.context;
  if (typeof key !== 'string') return { belongs: false, why: 'the context has no text as its targetingKey.' };
  const belongs = keysOf(text).has(key);
  return { belongs, why: belongs ? 'its targetingKey is listed.' : 'its targetingKey is not listed.' };
};

/** Whether the context that is tried is in a list of keys, which the page has as a whole. */
export const KeysPanel = ({ text }: { readonly text: string }) => {
  const of = useTriedContext();
  return <Panel of={of} verdict={verdictOfKeys(of, text)} error={null} />;
};

/** Whether the context that is tried fulfils the conditions. */
export const ConditionsPanel = ({ trial }: { readonly trial: PanelProps }) => <Panel {...trial} />;
