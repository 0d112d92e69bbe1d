import { type CompiledFlag, type CompiledSegment, type EvaluationContext, compileFlag } from '#domain/flags/compile.ts';
import type { FlagDefinition, Rule } from '#domain/flags/definition.ts';
import { evaluate } from '#domain/flags/evaluate.ts';

/** A definition with what a test leaves out. */
export const definition = (given: Partial<FlagDefinition> = {}): FlagDefinition => ({
  name: 'flag',
  description: '',
  flag_type: 'boolean',
  value: true,
  default_value: null,
  is_enabled: true,
  targeting_rules: [],
  prerequisites: [],
  json_schema: null,
  ...given,
});

/** Flags as one process holds them. */
export const lookupOf = (
  flags: Readonly<Record<string, FlagDefinition>>,
  segments: Readonly<Record<string, CompiledSegment>> = {},
) => ({
  flags: new Map<string, CompiledFlag>(Object.entries(flags).map(([key, one]) => [key, compileFlag(key, one)])),
  segments: new Map(Object.entries(segments)),
});

/** The outcome of a flag with those rules. */
export const outcomeOf = (
  rules: readonly Rule[],
  context: EvaluationContext,
  more: Partial<FlagDefinition> = {},
  segments: Readonly<Record<string, CompiledSegment>> = {},
) => {
  const flag = compileFlag('flag', definition({ targeting_rules: rules, ...more }));
  return evaluate({ ...lookupOf({}, segments), flags: new Map([['flag', flag]]) }, flag, context);
};

/** Whether a condition holds for an attribute of that value. */
export const holds = (operator: string, values: readonly (string | number | boolean)[], attribute: unknown): boolean =>
  outcomeOf([{ attribute: 'a', operator, values }], { a: attribute }).matched_rule === 0;
