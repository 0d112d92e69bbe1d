import { type Draft, useDraft } from '../../client/draft.ts';
import { useProject } from '../../client/project.ts';
import { useSettled } from '../../client/settled.ts';

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

export interface TriedContext {
  readonly draft: Draft;
  readonly fault: string | null;
  /** As it was typed, once nothing is typed any more; null: it is no context. */
  readonly context: Record<string, unknown> | null;
}

/** The context that is tried on the pages of flags and segments: one for the whole project. */
export const useTriedContext = (): TriedContext => {
  const { project } = useProject();
  const draft = useDraft(`${project.id}:flag-context`, firstContext);
  const read = parsed(useSettled(draft.text));
  return {
    draft,
    fault: 'fault' in read ? read.fault : null,
    context: 'context' in read ? read.context : null,
  };
};

/** The field in which the context is written. */
export const ContextInput = ({ draft, fault }: TriedContext) => (
  <>
    <label>
      Context: whoever is asked about
      <textarea
        rows={6}
        value={draft.text}
        spellCheck={false}
        aria-invalid={fault !== null}
        onChange={({ target }) => draft.change(target.value)}
      />
    </label>
    {fault !== null && <p className="bad">{fault}</p>}
  </>
);
