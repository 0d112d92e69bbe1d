import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import type { FlagType } from './flag-shapes.ts';
import { ValueInput } from './value-input.tsx';

interface NewFlagProps {
  readonly environment: string;
  readonly onMade: (key: string) => void;
  readonly onClose: () => void;
}

const firstValues: Readonly<Record<FlagType, unknown>> = { boolean: true, string: '', number: 0, json: {} };

/** Makes a flag, off until somebody turns it on. */
export const NewFlag = ({ environment, onMade, onClose }: NewFlagProps) => {
  const { project } = useProject();
  const [type, setType] = useState<FlagType>('boolean');
  const [value, setValue] = useState<unknown>(true);
  const make = useChange(
    (body: { readonly key: string; readonly name: string }) =>
      call('POST /projects/{project_id}/flags', {
        params: { project_id: project.id },
        query: { environment },
        body: {
          key: body.key,
          ...(body.name !== '' && { name: body.name }),
          flag_type: type,
          value,
          is_enabled: false,
        },
      }),
    {
      stale: [
        ['flags', project.id],
        ['environments', project.id],
      ],
      onDone: ({ key }) => onMade(key),
    },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({ key: fieldOf(form, 'key'), name: fieldOf(form, 'name') });
  };
  const choose = (next: FlagType): void => {
    setType(next);
    setValue(firstValues[next]);
  };
  return (
    <Dialog title={`New flag in ${environment}`} onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Key, as the code asks for it
          <input
            name="key"
            required
            pattern="[a-z0-9][a-z0-9._\-]{0,99}"
            placeholder="new-checkout"
            autoComplete="off"
          />
        </label>
        <label>
          Name
          <input name="name" maxLength={100} />
        </label>
        <label>
          Type
          <select value={type} onChange={({ target }) => choose(target.value as FlagType)}>
            {Object.keys(firstValues).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <ValueInput key={type} label="Value" type={type} value={value} onChange={setValue} />
        <p className="muted">It is off at first.</p>
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the flag
          </button>
        </p>
      </form>
    </Dialog>
  );
};
