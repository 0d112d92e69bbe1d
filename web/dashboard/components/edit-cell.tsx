import { type FormEvent, useState } from 'react';
import { textOf } from '../client/exact-json.ts';
import type { SchemaTable } from '../client/schema.ts';
import { Dialog } from './dialog.tsx';
import { Failure } from './failure.tsx';

interface EditCellProps {
  readonly column: SchemaTable['columns'][number] | undefined;
  readonly value: unknown;
  readonly error: unknown;
  readonly busy: boolean;
  readonly onSave: (value: unknown) => void;
  readonly onClose: () => void;
}

const isJson = (type: string): boolean => type === 'json' || type === 'jsonb';

/** The text as the column takes it: the server reads everything but JSON from its text form. */
const parsed = (text: string, type: string): unknown => (isJson(type) ? (JSON.parse(text) as unknown) : text);

/** Changes one value. NULL, an empty text and a value are three things. */
export const EditCell = ({ column, value, error, busy, onSave, onClose }: EditCellProps) => {
  const [text, setText] = useState(value === null || value === undefined ? '' : textOf(value, 2));
  const [isNull, setNull] = useState(value === null);
  const [fault, setFault] = useState<unknown>(null);
  if (column === undefined) return null;
  const { name, type, nullable, enum_values: choices } = column;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    try {
      onSave(isNull ? null : parsed(text, type));
    } catch (thrown) {
      setFault(thrown);
    }
  };
  return (
    <Dialog title={name} onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          {type}
          {choices === null ? (
            <textarea
              value={text}
              rows={Math.min(12, Math.max(2, text.split('\n').length))}
              disabled={isNull}
              onChange={({ target }) => setText(target.value)}
            />
          ) : (
            <select value={text} disabled={isNull} onChange={({ target }) => setText(target.value)}>
              {choices.map((choice) => (
                <option key={choice}>{choice}</option>
              ))}
            </select>
          )}
        </label>
        {nullable && (
          <label className="inline">
            <input type="checkbox" checked={isNull} onChange={({ target }) => setNull(target.checked)} />
            NULL
          </label>
        )}
        {(fault ?? error) !== null && <Failure error={fault ?? error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy}>
            Save
          </button>
        </p>
      </form>
    </Dialog>
  );
};
