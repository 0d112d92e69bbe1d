import { compileFlag } from '#domain/flags/compile.ts';
import type { FlagDefinition, Rule } from '#domain/flags/definition.ts';
import { evaluate } from '#domain/flags/evaluate.ts';
import { bucketOf } from '#domain/flags/bucket.ts';
import { type Benchmark, digits, median, percentile } from '../harness.ts';

const definition = (rules: readonly Rule[]): FlagDefinition => ({
  name: 'bench',
  description: '',
  flag_type: 'boolean',
  value: true,
  default_value: null,
  is_enabled: true,
  targeting_rules: rules,
  prerequisites: [],
  json_schema: null,
});

const rules: readonly Rule[] = [
  { attribute: 'plan', operator: 'in', values: ['enterprise'] },
  { attribute: 'country', operator: 'in', values: ['DE', 'AT'] },
  { attribute: 'email', operator: 'ends_with', values: ['@example.org'] },
  { attribute: 'age', operator: 'gt', values: [90] },
  { rollout: { percent: 50 } },
];

const evaluations = 500_000;

const roundNs = (): number => {
  const flag = compileFlag('bench', definition(rules));
  const lookup = { flags: new Map([['bench', flag]]), segments: new Map() };
  const contexts = Array.from({ length: 1000 }, (_, n) => ({
    targetingKey: `user-${n}`,
    plan: 'free',
    country: 'CH',
    email: `u${n}@example.com`,
    age: 30,
  }));
  let matched = 0;
  // CPU time, since a busy machine takes the processor away in between.
  const began = process.cpuUsage();
  for (let n = 0; n < evaluations; n += 1)
    if (evaluate(lookup, flag, contexts[n % 1000] ?? {}).matched_rule !== null) matched += 1;
  const ns = (process.cpuUsage(began).user / evaluations) * 1000;
  if (matched === 0 || matched === evaluations) throw new Error('the rollout did not split');
  return ns;
};

export const evaluating: Benchmark = {
  name: 'flags/evaluate',
  run: () => {
    roundNs();
    const rounds = Array.from({ length: 5 }, roundNs);
    return Promise.resolve([
      {
        name: 'evaluate a flag with five rules, the last a rollout',
        ours: { value: median(rounds) / 1000, unit: 'µs' },
        target: { of: 'ours', atMost: 1 },
        notes: [`rounds: ${rounds.map((ns) => digits(ns / 1000)).join(', ')} µs`],
      },
    ]);
  },
};

const users = 1_000_000;
const rollouts = 20;
const percents = [1, 10, 25, 50, 75, 90];

/** Distances, in percent of all users, between what was asked for and what came. */
const distancesOf = (flag: string): number[] => {
  const buckets = Array.from({ length: users }, (_, n) => bucketOf(flag, `user-${n}`));
  return percents.map((percent) => {
    const within = buckets.filter((bucket) => bucket < percent * 1000).length;
    return Math.abs((within / users) * 100 - percent);
  });
};

/** Chance alone, of a hash without any fault, is 0.05 % off at 50 % (one standard deviation). */
export const distribution: Benchmark = {
  name: 'flags/distribution',
  run: () => {
    const distances = Array.from({ length: rollouts }, (_, n) => distancesOf(`flag-${n}`)).flat();
    return Promise.resolve([
      {
        name: 'distance of a rollout from its percentage, 1,000,000 users, p90',
        ours: { value: percentile(distances, 0.9), unit: '%' },
        target: { of: 'ours', atMost: 0.1 },
        notes: [
          `${rollouts} flags at ${percents.join(', ')} %: median ${digits(median(distances))}, most ${digits(Math.max(...distances))}`,
        ],
      },
    ]);
  },
};
