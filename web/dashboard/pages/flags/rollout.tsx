import { useState } from 'react';
import { replaced, without } from './conditions.tsx';
import type { FlagType, Rule, Variants } from './flag-shapes.ts';
import { ValueInput } from './value-input.tsx';

type Rollout = NonNullable<Rule['rollout']>;
type Variant = Variants['variants'][number];

interface RolloutInputProps {
  /** The rule, for screen readers. */
  readonly name: string;
  readonly rollout: Rollout | undefined;
  /** The rule's own value, with which the variants begin. */
  readonly value: unknown;
  readonly type: FlagType;
  /** Null: everybody who matches. */
  readonly onChange: (rollout: Rollout | null) => void;
}

const Attribute = ({
  rollout,
  onChange,
}: {
  readonly rollout: Rollout;
  readonly onChange: (next: Rollout) => void;
}) => {
  const change = (text: string): void => {
    const { attribute: _, ...rest } = rollout;
    onChange(text === '' ? rest : { ...rest, attribute: text });
  };
  return (
    <label className="inline">
      Divided by
      <input
        size={12}
        value={rollout.attribute ?? ''}
        placeholder="targetingKey"
        onChange={({ target }) => change(target.value)}
      />
    </label>
  );
};

const Percent = ({ rollout, onChange }: Pick<RolloutInputProps, 'rollout' | 'onChange'>) => (
  <label className="inline">
    Percent of users
    <input
      type="number"
      min={0}
      max={100}
      step={0.001}
      value={rollout !== undefined && 'percent' in rollout ? rollout.percent : ''}
      placeholder="100"
      onChange={({ target }) => onChange(target.value === '' ? null : { ...rollout, percent: Number(target.value) })}
    />
  </label>
);

const wholeOf = (variants: readonly Variant[]): number =>
  variants.reduce((sum, { percent }) => sum + Math.round(percent * 1000), 0) / 1000;

interface VariantRowProps {
  readonly label: string;
  readonly variant: Variant;
  readonly type: FlagType;
  readonly onChange: (variant: Variant) => void;
  readonly onRemove: () => void;
}

const VariantRow = ({ label, variant, type, onChange, onRemove }: VariantRowProps) => (
  <div className="row condition">
    <input
      aria-label={`Name of ${label}`}
      value={variant.name ?? ''}
      placeholder="name"
      maxLength={100}
      onChange={({ target }) => {
        const { name: _, ...rest } = variant;
        onChange(target.value === '' ? rest : { ...rest, name: target.value });
      }}
    />
    <ValueInput
      label={`Value of ${label}`}
      type={type}
      value={variant.value}
      onChange={(value) => onChange({ ...variant, value })}
    />
    <label className="inline">
      <span className="unseen">Percent of {label}</span>
      <input
        type="number"
        min={0}
        max={100}
        step={0.001}
        value={variant.percent}
        onChange={({ target }) => onChange({ ...variant, percent: Number(target.value) })}
      />
      %
    </label>
    <button type="button" className="quiet" aria-label={`Remove ${label}`} onClick={onRemove}>
      Remove
    </button>
  </div>
);

interface VariantsInputProps extends Pick<RolloutInputProps, 'name' | 'type'> {
  readonly rollout: Variants;
  readonly onChange: (rollout: Variants) => void;
}

const VariantsInput = ({ name, rollout, type, onChange }: VariantsInputProps) => {
  // Rises with each removal, so that no field keeps the text of the one that was in its place.
  const [epoch, setEpoch] = useState(0);
  const { variants } = rollout;
  const whole = wholeOf(variants);
  const set = (next: readonly Variant[]): void => onChange({ ...rollout, variants: next });
  return (
    <>
      {variants.map((variant, place) => (
        <VariantRow
          // oxlint-disable-next-line react/no-array-index-key -- the epoch changes when places do
          key={`${epoch} ${place}`}
          label={`variant ${place + 1} of ${name}`}
          variant={variant}
          type={type}
          onChange={(next) => set(replaced(variants, place, next))}
          onRemove={() => {
            setEpoch(epoch + 1);
            set(without(variants, place));
          }}
        />
      ))}
      <p className="row">
        <button
          type="button"
          className="quiet"
          aria-label={`Add a variant to ${name}`}
          onClick={() => set([...variants, { value: variants[0]?.value, percent: Math.max(0, 100 - whole) }])}
        >
          Add a variant
        </button>
        <span className={whole === 100 ? 'muted' : 'bad'}>
          {whole === 100 ? 'Together 100 %.' : `Together ${whole} %; it has to be 100 %.`}
        </span>
      </p>
    </>
  );
};

const firstValues: Readonly<Record<FlagType, unknown>> = { boolean: true, string: '', number: 0, json: {} };

/** The part of those that match who get a value: all, a percentage, or parts with different values. */
export const RolloutInput = ({ name, rollout, value, type, onChange }: RolloutInputProps) => {
  const shared = rollout?.attribute === undefined ? {} : { attribute: rollout.attribute };
  const divide = (): void => onChange({ ...shared, variants: [{ value: value ?? firstValues[type], percent: 100 }] });
  if (rollout !== undefined && 'variants' in rollout)
    return (
      <>
        <VariantsInput name={name} rollout={rollout} type={type} onChange={onChange} />
        <div className="row">
          <Attribute rollout={rollout} onChange={onChange} />
          <button
            type="button"
            className="quiet"
            aria-label={`One value for all of ${name}`}
            onClick={() => onChange(null)}
          >
            One value for all
          </button>
        </div>
      </>
    );
  return (
    <div className="row">
      <Percent rollout={rollout} onChange={onChange} />
      {rollout !== undefined && <Attribute rollout={rollout} onChange={onChange} />}
      <button type="button" className="quiet" aria-label={`Several values by weight for ${name}`} onClick={divide}>
        Several values by weight
      </button>
    </div>
  );
};
