import { useState } from 'react';
import type { Operations } from '../../client/types.ts';
import { FaultAt } from '../../components/field.tsx';
import { Conditions, replaced, without } from './conditions.tsx';
import { type FlagType, type Rule, conditionsOf, withConditions } from './flag-shapes.ts';
import { RolloutInput } from './rollout.tsx';
import { SegmentInput } from './segment-input.tsx';
import { ValueInput } from './value-input.tsx';

type Explanation = NonNullable<
  Operations['POST /projects/{project_id}/flags/{key}/evaluate']['answer']['explanation']
>[number];

/** Parts of a rule that may be left out are taken away, and not sent as null. */
const withPart = (rule: Rule, name: keyof Rule, value: unknown): Rule => {
  const { [name]: _, ...rest } = rule;
  return value === null || value === '' || value === undefined ? rest : { ...rest, [name]: value };
};

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
  readonly error: unknown;
  readonly onChange: (rule: Rule) => void;
}

const RuleParts = ({ place, rule, type, error, onChange }: Omit<RuleProps, 'explanation' | 'decides'>) => {
  const at = `targeting_rules.${place}`;
  const hasVariants = rule.rollout !== undefined && 'variants' in rule.rollout;
  return (
    <>
      <div className="row">
        <SegmentInput value={rule.segment ?? ''} onChange={(key) => onChange(withPart(rule, 'segment', key))} />
        {!hasVariants && (
          <ValueInput
            key={`${place} value`}
            label="Value"
            type={type}
            value={rule.value}
            empty="the flag’s"
            onChange={(value) => onChange(withPart(rule, 'value', value))}
          />
        )}
      </div>
      <RolloutInput
        name={`rule ${place + 1}`}
        rollout={rule.rollout}
        value={rule.value}
        type={type}
        onChange={(rollout) =>
          onChange(withPart('variants' in (rollout ?? {}) ? withPart(rule, 'value', null) : rule, 'rollout', rollout))
        }
      />
      {(['segment', 'value', 'rollout'] as const).map((part) => (
        <FaultAt key={part} at={`${at}.${part}`} error={error} />
      ))}
    </>
  );
};

interface RulesProps {
  readonly rules: readonly Rule[];
  readonly type: FlagType;
  readonly explanations: readonly Explanation[];
  readonly matched: number | null;
  readonly error: unknown;
  readonly onChange: (rules: readonly Rule[]) => void;
}

const moved = <T,>(list: readonly T[], place: number): T[] => {
  const rest = without(list, place);
  const one = list[place];
  return one === undefined ? rest : rest.toSpliced(place - 1, 0, one);
};

/** The rules of a flag from top to bottom: the first that matches decides. */
export const Rules = ({ rules, type, explanations, matched, error, onChange }: RulesProps) => {
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
                at={`targeting_rules.${place}.conditions`}
                error={error}
                conditions={conditionsOf(rule)}
                onChange={(conditions) => onChange(replaced(rules, place, withConditions(rule, conditions)))}
              />
              <RuleParts
                place={place}
                rule={rule}
                type={type}
                error={error}
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
