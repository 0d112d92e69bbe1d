import { type FormEvent, useState } from 'react';
import { textOf } from '../../client/exact-json.ts';
import { type Column, isJson, valueOfText } from '../../client/values.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

interface ValueDialogProps {
  readonly column: Column;
  readonly value: unknown;
  /** Left out: the value is shown only. */
  readonly onSave?: ((value: unknown) => void) | undefined;
  readonly onClose: () => void;
}

const indented = (text: string): string => JSON.stringify(JSON.parse(text) as unknown, null, 2);

const firstText = (value: unknown, type: string): string => {
  if (value === null || value === undefined) return '';
  return isJson(type) ? JSON.stringify(value, null, 2) : textOf(value);
};

/** Shows or changes a value that does not fit into a cell: JSON, several lines, megabytes. */
export const ValueDialog = ({ column, value, onSave, onClose }: ValueDialogProps) => {
  const { name, type, nullable } = column;
  const [text, setText] = useState(() => firstText(value, type));
  const [isNull, setNull] = useState(value === null);
  const [fault, setFault] = useState<unknown>(null);
  const attempt = (work: () => void): void => {
    try {
      work();
      setFault(null);
    } catch (error) {
      setFault(error);
    }
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    attempt(() => onSave?.(isNull ? null : valueOfText(text, column)));
  };
  return (
    <Dialog title={name} className="wide" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          {type}
          <textarea
            value={text}
            rows={Math.min(18, Math.max(4, text.slice(0, 10_000).split('\n').length))}
            disabled={isNull}
            readOnly={onSave === undefined}
            spellCheck={false}
            onChange={({ target }) => setText(target.value)}
          />
        </label>
        {onSave && nullable && (
          <label className="inline">
            <input type="checkbox" checked={isNull} onChange={({ target }) => setNull(target.checked)} />
            NULL
          </label>
        )}
        {fault !== null && <Failure error={fault} />}
        <p className="row end">
          {onSave && isJson(type) && !isNull && (
            <button type="button" onClick={() => attempt(() => setText(indented(text)))}>
              Format
            </button>
          )}
          <button type="button" onClick={onClose}>
            {onSave ? 'Cancel' : 'Close'}
          </button>
          {onSave && (
            <button type="submit" className="primary">
              Keep
            </button>
          )}
        </p>
      </form>
    </Dialog>
  );
};
