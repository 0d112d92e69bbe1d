import type { InputHTMLAttributes } from 'react';
import { useJobTypes } from '../client/session.ts';

interface ChoiceProps {
  readonly name: string;
  readonly label: string;
  readonly options: readonly string[];
  readonly value: string;
  /** Left out: the form is sent by a button. */
  readonly onChange?: (value: string) => void;
}

/** A choice among some texts, or any. */
export const Choice = ({ name, label, options, value, onChange }: ChoiceProps) => (
  <label>
    {label}
    <select name={name} defaultValue={value} onChange={({ target }) => onChange?.(target.value)}>
      <option value="">any</option>
      {options.map((option) => (
        <option key={option}>{option}</option>
      ))}
    </select>
  </label>
);

/** A choice among the types of jobs, or any. */
export const TypeChoice = ({ value, onChange }: Pick<ChoiceProps, 'value' | 'onChange'>) => (
  <Choice name="type" label="Type" options={useJobTypes()} value={value} {...(onChange && { onChange })} />
);

interface TextFieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'defaultValue'> {
  readonly name: string;
  readonly label: string;
  readonly value?: string;
}

/** A line of text in a form. */
export const TextField = ({ label, value = '', ...rest }: TextFieldProps) => (
  <label>
    {label}
    <input defaultValue={value} spellCheck={false} autoComplete="off" {...rest} />
  </label>
);

interface LimitFieldProps {
  readonly name: string;
  readonly label: string;
  readonly min: number;
  readonly value: number | null;
  /** The present value, in words. */
  readonly hint: string;
}

const maxLimit = 1_000_000;

/** A number that may be left empty. */
export const LimitField = ({ name, label, min, value, hint }: LimitFieldProps) => (
  <label>
    {label}
    <input name={name} type="number" min={min} max={maxLimit} step={1} defaultValue={value ?? ''} />
    <small className="muted">{hint}</small>
  </label>
);

/** The number that stands in such a field; null for an empty one. */
export const limitOf = (text: string): number | null => (text === '' ? null : Number(text));
