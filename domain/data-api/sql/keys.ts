import type { Field, ReadPlan } from '#domain/data-api/plan.ts';

/** Whether a relation is asked for and nothing of it (`author!inner()`): it has no key. */
export const showsNothing = (plan: ReadPlan): boolean =>
  plan.fields.every((field) => field.kind === 'relation' && showsNothing(field.plan));

const keysOfField = (field: Field, plan: ReadPlan): string[] => {
  if (field.kind === 'all') return [...plan.table.columns.keys()];
  if (field.kind !== 'relation') return [field.as];
  if (showsNothing(field.plan)) return [];
  return field.spread ? keysOf(field.plan) : [field.as];
};

/** The keys of the plan's objects, in their order. */
export const keysOf = (plan: ReadPlan): string[] => plan.fields.flatMap((field) => keysOfField(field, plan));
