import { type FormEvent, useState } from 'react';
import { type Condition, conditionsOf, filterOf, operators } from '../../client/conditions.ts';
import { fieldOf } from '../../client/form.ts';
import type { SchemaTable } from '../../client/schema.ts';

interface FilterBarProps {
  readonly table: SchemaTable;
  readonly filter: string;
  readonly onChange: (filter: string) => void;
}

const inWords = ({ column, operator, value }: Condition): string =>
  operator === ''
    ? `${column}=${value}`
    : `${column} ${operators[operator]?.replace(/ \(.*/, '') ?? operator} ${value}`;

/** The conditions of a view, each of which can be taken away, and a form that adds one. */
export const FilterBar = ({ table, filter, onChange }: FilterBarProps) => {
  const conditions = conditionsOf(filter);
  const [isOpen, setOpen] = useState(false);
  const add = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const [column, operator, value] = ['column', 'operator', 'value'].map((name) => fieldOf(form, name));
    onChange(filterOf([...conditions, { column: column ?? '', operator: operator ?? 'eq', value: value ?? '' }]));
    setOpen(false);
  };
  return (
    <div className="row filters">
      {conditions.map((condition, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same condition may stand there twice
        <span key={place} className="tag chip">
          {inWords(condition)}
          <button
            type="button"
            className="quiet"
            aria-label={`Remove the condition ${inWords(condition)}`}
            onClick={() => onChange(filterOf(conditions.filter((_, index) => index !== place)))}
          >
            ×
          </button>
        </span>
      ))}
      {!isOpen && (
        <button type="button" className="quiet" onClick={() => setOpen(true)}>
          Add a condition
        </button>
      )}
      {isOpen && (
        <form className="row" onSubmit={add}>
          <select name="column" aria-label="Column" autoFocus>
            {table.columns.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <select name="operator" aria-label="Operator">
            {Object.entries(operators).map(([operator, words]) => (
              <option key={operator} value={operator}>
                {words}
              </option>
            ))}
          </select>
          <input name="value" aria-label="Value" />
          <button type="submit" className="primary">
            Filter
          </button>
          <button type="button" onClick={() => setOpen(false)}>
            Cancel
          </button>
        </form>
      )}
    </div>
  );
};
