import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { fieldOf } from '../client/form.ts';
import { Confirm } from './dialog.tsx';
import { Failure } from './failure.tsx';
import { Table } from './table.tsx';

interface VariablesProps {
  readonly label: string;
  readonly names: readonly string[];
  readonly mayChange: boolean;
  /** Sets variables; null deletes one. */
  readonly onChange: (change: Readonly<Record<string, string | null>>) => Promise<unknown>;
}

/** Variables by name. Their values are set here and shown to nobody. */
export const Variables = ({ label, names, mayChange, onChange }: VariablesProps) => {
  const [removing, setRemoving] = useState<string | null>(null);
  const change = useMutation({ mutationFn: onChange });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    change.mutate({ [fieldOf(form, 'name').trim()]: fieldOf(form, 'value') }, { onSuccess: () => form.reset() });
  };
  return (
    <>
      {names.length === 0 && <p className="muted">There is none.</p>}
      {names.length > 0 && (
        <Table caption={label} isCaptionHidden columns={['Name', 'Value', '']}>
          {names.map((name) => (
            <tr key={name}>
              <td>
                <code>{name}</code>
              </td>
              <td className="muted">kept sealed</td>
              <td>
                {mayChange && (
                  <button type="button" aria-label={`Delete the variable ${name}`} onClick={() => setRemoving(name)}>
                    Delete
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {mayChange && (
        <form className="row" onSubmit={submit} autoComplete="off">
          <label>
            Name of the variable
            <input name="name" required pattern="[A-Za-z_][A-Za-z0-9_]*" maxLength={128} spellCheck={false} />
          </label>
          <label className="fill">
            Value
            <input name="value" type="password" autoComplete="new-password" />
          </label>
          <button type="submit" disabled={change.isPending}>
            Set the variable
          </button>
        </form>
      )}
      {change.error && <Failure error={change.error} />}
      {removing !== null && (
        <Confirm
          title="Delete the variable?"
          action="Delete the variable"
          onClose={() => setRemoving(null)}
          onConfirm={() => change.mutate({ [removing]: null }, { onSuccess: () => setRemoving(null) })}
        >
          <p>
            Runs that start from now on have no <code>{removing}</code>. Nobody can read its value to bring it back.
          </p>
        </Confirm>
      )}
    </>
  );
};
