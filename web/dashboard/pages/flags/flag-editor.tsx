import { type FormEvent, useState } from 'react';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { FaultAt, Field } from '../../components/field.tsx';
import type { Tried } from './evaluation.tsx';
import type { Edited, Flag } from './flag-shapes.ts';
import { Prerequisites } from './prerequisites.tsx';
import { Rules } from './rules.tsx';
import { ValueInput } from './value-input.tsx';

interface FlagEditorProps {
  readonly flag: Flag;
  readonly edited: Edited;
  readonly mayWrite: boolean;
  /** Null: the flag is not evaluated. */
  readonly tried: Tried | null;
  readonly error: unknown;
  readonly onChange: (edited: Edited) => void;
}

const AsJson = ({
  edited: { version, ...fields },
  onChange,
  onClose,
}: Pick<FlagEditorProps, 'edited' | 'onChange'> & { readonly onClose: () => void }) => {
  const [text, setText] = useState(JSON.stringify(fields, null, 2));
  const [fault, setFault] = useState<unknown>(null);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    try {
      onChange({ ...(JSON.parse(text) as Omit<Edited, 'version'>), version });
      onClose();
    } catch (error) {
      setFault(error);
    }
  };
  return (
    <Dialog title="The flag as JSON" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Values, rules, prerequisites and JSON schema
          <textarea rows={20} value={text} spellCheck={false} onChange={({ target }) => setText(target.value)} />
        </label>
        {fault !== null && <Failure error={fault} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary">
            Take it over
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** Values and rules of a flag. The rules show what they make of the context that is tried. */
export const FlagEditor = ({ flag, edited, mayWrite, tried, error, onChange }: FlagEditorProps) => {
  const [isJson, setJson] = useState(false);
  // Fields with a text of their own begin anew when all of it was replaced.
  const [epoch, setEpoch] = useState(0);
  const { flag_type: type } = flag;
  const set = (change: Partial<Edited>): void => onChange({ ...edited, ...change });
  return (
    <fieldset disabled={!mayWrite} key={epoch}>
      <legend className="unseen">The flag</legend>
      <div className="row">
        <h2>Values and rules</h2>
        {mayWrite && (
          <button type="button" onClick={() => setJson(true)}>
            As JSON
          </button>
        )}
      </div>
      <section>
        <Field label="Name" at="name" error={error}>
          {(given) => (
            <input
              {...given}
              value={edited.name}
              maxLength={100}
              required
              onChange={({ target }) => set({ name: target.value })}
            />
          )}
        </Field>
        <Field label="Description" at="description" error={error}>
          {(given) => (
            <textarea
              {...given}
              rows={2}
              maxLength={2000}
              value={edited.description}
              onChange={({ target }) => set({ description: target.value })}
            />
          )}
        </Field>
      </section>
      <div className="row">
        <ValueInput label="Value" type={type} value={edited.value} onChange={(value) => set({ value })} />
        <ValueInput
          label="For everybody else"
          type={type}
          value={edited.default_value}
          empty={type === 'boolean' ? 'false' : 'null'}
          onChange={(value) => set({ default_value: value })}
        />
      </div>
      <FaultAt at="value" error={error} />
      <FaultAt at="default_value" error={error} />
      <Prerequisites
        flag={flag}
        prerequisites={edited.prerequisites}
        error={error}
        onChange={(prerequisites) => set({ prerequisites })}
      />
      <Rules
        rules={edited.targeting_rules}
        type={type}
        explanations={tried?.outcome?.explanation ?? []}
        matched={tried?.outcome?.matched_rule ?? null}
        error={error}
        onChange={(rules) => set({ targeting_rules: rules })}
      />
      {isJson && (
        <AsJson
          edited={edited}
          onChange={(next) => {
            setEpoch(epoch + 1);
            onChange(next);
          }}
          onClose={() => setJson(false)}
        />
      )}
    </fieldset>
  );
};
