import { useState } from 'react';
import { FaultAt } from '../../components/field.tsx';
import { type Condition, operators } from './flag-shapes.ts';
import { ScalarsInput } from './value-input.tsx';

interface ConditionsProps {
  /** The thing that has them, for screen readers. */
  readonly name: string;
  /** Their path in errors of the API. */
  readonly at: string;
  readonly error: unknown;
  readonly conditions: readonly Condition[];
  readonly onChange: (conditions: readonly Condition[]) => void;
}

/** A list with another one in that place. */
export const replaced = <T,>(list: readonly T[], place: number, value: T): T[] =>
  list.map((one, index) => (index === place ? value : one));

/** A list without the one in that place. */
export const without = <T,>(list: readonly T[], place: number): T[] => list.filter((_, index) => index !== place);

/** Conditions that must all match. */
export const Conditions = ({ name, at, error, conditions, onChange }: ConditionsProps) => {
  // Rises with each removal, so that no field keeps the text of the one that was in its place.
  const [epoch, setEpoch] = useState(0);
  return (
    <>
      {conditions.map((condition, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- the epoch changes when places do
        <div key={`${epoch} ${place}`}>
          <div className="row condition">
            <span className="muted">{place === 0 ? 'if' : 'and'}</span>
            <input
              aria-label={`Attribute of condition ${place + 1} of ${name}`}
              value={condition.attribute}
              placeholder="attribute"
              onChange={({ target }) =>
                onChange(replaced(conditions, place, { ...condition, attribute: target.value }))
              }
            />
            <select
              aria-label={`Operator of condition ${place + 1} of ${name}`}
              value={condition.operator}
              onChange={({ target }) => onChange(replaced(conditions, place, { ...condition, operator: target.value }))}
            >
              {operators.map((operator) => (
                <option key={operator}>{operator}</option>
              ))}
            </select>
            {condition.operator !== 'exists' && (
              <ScalarsInput
                label={`Values of condition ${place + 1} of ${name}`}
                values={condition.values}
                onChange={(values) => onChange(replaced(conditions, place, { ...condition, values }))}
              />
            )}
            <button
              type="button"
              className="quiet"
              aria-label={`Remove condition ${place + 1} of ${name}`}
              onClick={() => {
                setEpoch(epoch + 1);
                onChange(without(conditions, place));
              }}
            >
              Remove
            </button>
          </div>
          <FaultAt at={`${at}.${place}`} error={error} />
        </div>
      ))}
      <button
        type="button"
        className="quiet"
        aria-label={`Add a condition to ${name}`}
        onClick={() => onChange([...conditions, { attribute: '', operator: 'in', values: [] }])}
      >
        Add a condition
      </button>
    </>
  );
};
