import { useState } from 'react';
import type { Operations } from '../../client/types.ts';
import { type Condition, type FlagType, type Rule, conditionsOf, operators, withConditions } from './flag-shapes.ts';
import { ScalarsInput, ValueInput } from './value-input.tsx';

type Explanation = NonNullable<
  Operations['POST /projects/{project_id}/flags/{key}/evaluate']['answer']['explanation']
>[number];

interface ConditionsProps {
  readonly name: string;
  readonly conditions: readonly Condition[];
  readonly onChange: (conditions: readonly Condition[]) => void;
}

const replaced = <T,>(list: readonly T[], place: number, value: T): T[] =>
  list.map((one, index) => (index === place ? value : one));

const without = <T,>(list: readonly T[], place: number): T[] => list.filter((_, index) => index !== place);

const Conditions = ({ name, conditions, onChange }: ConditionsProps) => {
  // Rises with each removal, so that no field keeps the text of the one that was in its place.
  const [epoch, setEpoch] = useState(0);
  return (
    <>
      {conditions.map((condition, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- the epoch changes when places do
        <div key={`${epoch} ${place}`} className="row condition">
          <span className="muted">{place === 0 ? 'if' : 'and'}</span>
          <input
            aria-label={`Attribute of condition ${place + 1} of ${name}`}
            value={condition.attribute}
            placeholder="attribute"
            onChange={({ target }) => onChange(replaced(conditions, place, { ...condition, attribute: target.value }))}
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

/** Parts of a rule that may be left out are taken away, and not sent as null. */
const withPart = (rule: Rule, name: keyof Rule, value: unknown): Rule => {
  const { [name]: _, ...rest } = rule;
  return value === null || value === '' || value === undefined ? rest : { ...rest, [name]: value };
};

const percentOf = ({ rollout }: Rule): string =>
  rollout !== undefined && 'percent' in rollout ? String(rollout.percent) : '';

const sentenceOf = ({ matched, failed }: Explanation): string => {
  if (matched) return 'matches';
  return failed === null ? 'does not match' : `does not match: ${failed.attribute} ${failed.operator}`;
};

interface RuleProps {
  readonly place: number;
  readonly rule: Rule;
  readonly type: FlagType;
  readonly explanation: Explanation | undefined;
  /** It decides the value of the context that is tried. */
  readonly decides: boolean;
  readonly onChange: (rule: Rule) => void;
}

const RuleParts = ({ place, rule, type, onChange }: Omit<RuleProps, 'explanation' | 'decides'>) => {
  const { rollout } = rule;
  const setPercent = (text: string): void =>
    onChange(withPart(rule, 'rollout', text === '' ? null : { ...rollout, percent: Number(text) }));
  return (
    <div className="row">
      <label className="inline">
        Segment
        <input
          size={12}
          value={rule.segment ?? ''}
          placeholder="any"
          onChange={({ target }) => onChange(withPart(rule, 'segment', target.value))}
        />
      </label>
      {rollout !== undefined && 'variants' in rollout ? (
        <span className="muted">{rollout.variants.length} variants, which are changed as JSON</span>
      ) : (
        <label className="inline">
          Percent of users
          <input
            type="number"
            min={0}
            max={100}
            step={0.001}
            value={percentOf(rule)}
            placeholder="100"
            onChange={({ target }) => setPercent(target.value)}
          />
        </label>
      )}
      <ValueInput
        key={`${place} value`}
        label="Value"
        type={type}
        value={rule.value}
        empty="the flag’s"
        onChange={(value) => onChange(withPart(rule, 'value', value))}
      />
    </div>
  );
};

interface RulesProps {
  readonly rules: readonly Rule[];
  readonly type: FlagType;
  readonly explanations: readonly Explanation[];
  readonly matched: number | null;
  readonly onChange: (rules: readonly Rule[]) => void;
}

const moved = <T,>(list: readonly T[], place: number): T[] => {
  const rest = without(list, place);
  const one = list[place];
  return one === undefined ? rest : rest.toSpliced(place - 1, 0, one);
};

/** The rules of a flag from top to bottom: the first that matches decides. */
export const Rules = ({ rules, type, explanations, matched, onChange }: RulesProps) => {
  const [epoch, setEpoch] = useState(0);
  const rearrange = (next: readonly Rule[]): void => {
    setEpoch(epoch + 1);
    onChange(next);
  };
  return (
    <section className="rules" aria-label="Rules">
      {rules.length === 0 && <p className="empty">There are no rules: everybody gets the value.</p>}
      <ol>
        {rules.map((rule, place) => {
          const explanation = explanations.find(({ rule: index }) => index === place);
          const name = `rule ${place + 1}`;
          return (
            // oxlint-disable-next-line react/no-array-index-key -- the epoch changes when places do
            <li key={`${epoch} ${place}`} className={matched === place ? 'decides' : undefined}>
              <div className="row">
                <strong>Rule {place + 1}</strong>
                {explanation && (
                  <span className={explanation.matched ? 'good' : 'muted'}>
                    {sentenceOf(explanation)}
                    {matched === place ? ', and decides' : ''}
                  </span>
                )}
                <button
                  type="button"
                  className="quiet"
                  disabled={place === 0}
                  aria-label={`Move ${name} up`}
                  onClick={() => rearrange(moved(rules, place))}
                >
                  Up
                </button>
                <button
                  type="button"
                  className="quiet"
                  aria-label={`Remove ${name}`}
                  onClick={() => rearrange(without(rules, place))}
                >
                  Remove
                </button>
              </div>
              <Conditions
                name={name}
                conditions={conditionsOf(rule)}
                onChange={(conditions) => onChange(replaced(rules, place, withConditions(rule, conditions)))}
              />
              <RuleParts
                place={place}
                rule={rule}
                type={type}
                onChange={(next) => onChange(replaced(rules, place, next))}
              />
            </li>
          );
        })}
      </ol>
      <button
        type="button"
        onClick={() => onChange([...rules, { conditions: [{ attribute: 'plan', operator: 'in', values: ['pro'] }] }])}
      >
        Add a rule
      </button>
    </section>
  );
};
