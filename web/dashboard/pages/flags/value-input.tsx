import { useState } from 'react';
import { type FlagType, type Scalar, scalarsOf, textOfScalars } from './flag-shapes.ts';

interface ValueInputProps {
  readonly label: string;
  readonly type: FlagType;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  /** The placeholder of an empty field, which stands for no value. Left out: a value is required. */
  readonly empty?: string;
}

const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
};

const BooleanInput = ({ label, value, onChange, empty }: Omit<ValueInputProps, 'type'>) => (
  <label className="inline">
    {label}
    <select
      value={typeof value === 'boolean' ? String(value) : ''}
      onChange={({ target }) => onChange(target.value === '' ? null : target.value === 'true')}
    >
      {(empty !== undefined || typeof value !== 'boolean') && <option value="">{empty ?? '–'}</option>}
      <option value="true">true</option>
      <option value="false">false</option>
    </select>
  </label>
);

const JsonInput = ({ label, value, onChange, empty }: Omit<ValueInputProps, 'type'>) => {
  const [text, setText] = useState(textOf(value));
  const [isWrong, setWrong] = useState(false);
  const change = (next: string): void => {
    setText(next);
    try {
      onChange(next.trim() === '' ? null : (JSON.parse(next) as unknown));
      setWrong(false);
    } catch {
      setWrong(true);
    }
  };
  return (
    <label>
      {label}, as JSON{empty === undefined ? '' : `; empty: ${empty}`}
      <textarea
        rows={3}
        value={text}
        spellCheck={false}
        aria-invalid={isWrong}
        onChange={({ target }) => change(target.value)}
      />
      {isWrong && <span className="bad">This is not JSON yet; the last valid text counts.</span>}
    </label>
  );
};

/** A value of the flag's own type. */
export const ValueInput = (props: ValueInputProps) => {
  const { label, type, value, onChange, empty } = props;
  if (type === 'boolean') return <BooleanInput {...props} />;
  if (type === 'json') return <JsonInput {...props} />;
  const change = (text: string): void => {
    if (type === 'string') onChange(text);
    else onChange(text === '' ? null : Number(text));
  };
  return (
    <label className="inline">
      {label}
      <input
        type={type === 'number' ? 'number' : 'text'}
        step="any"
        value={textOf(value)}
        placeholder={empty}
        onChange={({ target }) => change(target.value)}
      />
    </label>
  );
};

interface ScalarsProps {
  readonly label: string;
  readonly values: readonly Scalar[] | undefined;
  readonly onChange: (values: readonly Scalar[]) => void;
}

/** Values with which an attribute is compared. */
export const ScalarsInput = ({ label, values, onChange }: ScalarsProps) => {
  const [text, setText] = useState(textOfScalars(values));
  return (
    <input
      aria-label={label}
      value={text}
      placeholder="pro, team"
      onChange={({ target }) => {
        setText(target.value);
        onChange(scalarsOf(target.value));
      }}
    />
  );
};
