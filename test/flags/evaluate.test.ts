import { inspect } from 'node:util';
import test from 'ava';
import { bucketOf, murmur3 } from '#domain/flags/bucket.ts';
import { type CompiledSegment, compileConditions, compileFlag } from '#domain/flags/compile.ts';
import { beginAnswer, evaluate, explain, failureOfSegment } from '#domain/flags/evaluate.ts';
import type { FlagSet } from '#domain/flags/flag-sets.ts';
import { evaluateAll, singleText } from '#domain/flags/ofrep.ts';
import { timeOf } from '#domain/flags/operators.ts';
import { definition, holds, lookupOf, outcomeOf } from './scene.ts';

test('the hash is MurmurHash3, in UTF-8, whatever the length', (t) => {
  const known = { '': 0, a: 1_009_084_850, abc: 3_017_643_002, abcd: 1_139_631_978, 'hello, world': 345_750_399 };
  for (const [text, hash] of Object.entries(known)) t.is(murmur3(text), hash, text);
  t.is(murmur3('日本語テキスト'), 3_871_913_517);
  t.is(murmur3('Łabc'), 1_038_200_531);
  t.is(murmur3('xyzŁ'), 3_887_415_135);
  t.is(murmur3('ä'), 2_117_259_732);
  t.is(murmur3('🙂flag'), 1_705_710_802);
});

test('without rules the value is served, disabled nothing is', (t) => {
  t.like(outcomeOf([], {}), { value: true, reason: 'STATIC', matched_rule: null, variant: 'on' });
  t.like(outcomeOf([], {}, { is_enabled: false }), { value: false, reason: 'DISABLED' });
  t.like(outcomeOf([], {}, { is_enabled: false, flag_type: 'string', value: 'x' }), { value: null });
});

test('the first rule that matches decides; none: the default value, else false or null', (t) => {
  const rules = [
    { attribute: 'plan', operator: 'in', values: ['pro'], value: 'a' },
    { conditions: [{ attribute: 'plan', operator: 'exists' }], value: 'b' },
  ];
  const string = { flag_type: 'string', value: 'v' } as const;
  t.like(outcomeOf(rules, { plan: 'pro' }, string), { value: 'a', matched_rule: 0, reason: 'TARGETING_MATCH' });
  t.like(outcomeOf(rules, { plan: 'free' }, string), { value: 'b', matched_rule: 1 });
  t.like(outcomeOf(rules, {}, string), { value: null, matched_rule: null, reason: 'DEFAULT' });
  t.like(outcomeOf(rules, {}, { ...string, default_value: 'd' }), {
    value: 'd',
    reason: 'DEFAULT',
    variant: 'default',
  });
  t.like(outcomeOf([{ attribute: 'plan', operator: 'in', values: ['pro'] }], {}), { value: false });
  t.like(outcomeOf([{ attribute: 'plan', operator: 'in', values: ['pro'] }], { plan: 'pro' }), { value: true });
});

const cases: readonly [string, (string | number | boolean)[], unknown, boolean][] = [
  ['in', ['a', 'b'], 'b', true],
  ['in', ['1'], 1, false],
  ['in', ['x'], ['y', 'x'], true],
  ['not_in', ['a'], 'b', true],
  ['not_in', ['a'], ['b', 'a'], false],
  ['eq', [true], true, true],
  ['eq', [1], '1', false],
  ['eq', [1], Number.NaN, false],
  ['neq', ['a'], 'b', true],
  ['neq', ['a'], { b: 1 }, false],
  ['contains', ['ell'], 'hello', true],
  ['contains', ['admin'], ['user', 'admin'], true],
  ['contains', ['dmin'], ['admin'], false],
  ['starts_with', ['he', 'x'], 'hello', true],
  ['ends_with', ['lo'], 'hello', true],
  ['ends_with', ['lo'], 5, false],
  ['gt', [5], 6, true],
  ['gt', [5], '6', false],
  ['gte', [5], 5, true],
  ['lt', [5], Number.POSITIVE_INFINITY, false],
  ['lt', [5], Number.NaN, false],
  ['lte', [5], 5, true],
  ['eq', [9_007_199_254_740_991], 2 ** 53, false],
  ['before', ['2026-01-01'], '2025-12-31T23:59:59Z', true],
  ['after', ['2026-01-01T00:00:00Z'], '2026-01-01T00:30:00+01:00', false],
  ['after', ['2026-01-01T00:00:00Z'], '2026-01-01T00:00:00-00:30', true],
  ['after', ['2026-01-01'], 1_767_225_601, true],
  ['after', ['2026-01-01'], 1_767_225_600_001, true],
  ['after', ['2026-01-01'], Number.NaN, false],
  ['before', ['2026-01-01'], Number.NEGATIVE_INFINITY, false],
  ['before', ['2026-01-01'], 'yesterday', false],
  ['before', ['2026-01-01'], '2025-02-30', false],
  ['semver_eq', ['1.2.3'], '1.2.3+build.7', true],
  ['semver_eq', ['1.2.3+a'], '1.2.3+b', true],
  ['semver_gt', ['1.2.3'], '1.2.3+later', false],
  ['semver_lt', ['1.2.3+b'], '1.2.3-rc.1+c', true],
  ['semver_eq', ['1.2.3'], '1.2.3+', false],
  ['semver_gt', ['1.2.3'], '1.10.0', true],
  ['semver_gt', ['1.0.0-rc.1'], '1.0.0', true],
  ['semver_gte', ['1.0.0'], 'v1.0.0', true],
  ['semver_lt', ['1.0.0'], '1.0.0-beta', true],
  ['semver_lte', ['1.0.0'], '1.0', false],
  ['semver_gt', ['1.0.0'], `${'9'.repeat(300)}.0.0`, false],
  ['matches', ['^a+@example\\.com$'], 'aa@example.com', true],
  ['matches', ['b'], 'abc', true],
  ['matches', ['^(a|aa)+$'], `${'a'.repeat(900)}!`, false],
  ['matches', ['a'], 'a'.repeat(2000), false],
  ['exists', [], 0, true],
  ['exists', [], false, true],
  ['unheard_of', ['a'], 'a', false],
  ['constructor', ['a'], 'a', false],
];

for (const [operator, values, attribute, expected] of cases) {
  const shown = inspect(attribute).slice(0, 40);
  test(`${operator} ${JSON.stringify(values).slice(0, 40)} is ${expected} of ${typeof attribute} ${shown}`, (t) => {
    t.is(holds(operator, values, attribute), expected);
  });
}

test('a missing attribute, and null, match no operator', (t) => {
  for (const operator of ['in', 'not_in', 'eq', 'neq', 'contains', 'gt', 'before', 'semver_lt', 'matches', 'exists']) {
    t.false(holds(operator, ['a'], undefined), operator);
    t.false(holds(operator, ['a'], null), operator);
  }
});

test('times are read the same everywhere; what is none is NaN', (t) => {
  const same = [
    '2026-11-24T10:00:00Z',
    '2026-11-24t10:00z',
    '2026-11-24T12:00:00.000+02:00',
    '2026-11-24 10:00',
    '2026-11-24T10:00:00,000Z',
    '2026-11-24T10:00:00.000999999Z',
    '2026-11-24T10:00:00-0000',
    '2026-11-24T05:30:00.000-04:30',
    ' 2026-11-24T10:00Z ',
    1_795_514_400_000,
    1_795_514_400,
  ];
  t.deepEqual([...new Set(same.map(timeOf))], [Date.UTC(2026, 10, 24, 10)]);
  for (const none of [
    '',
    '24.11.2026',
    '2026-13-01',
    '2026-02-29',
    'Nov 24 2026',
    '2026-11-24T25:00Z',
    '2026-11-24T10:00:60Z',
    '2026-11-24T10:00+25:00',
    '2026-W48-2',
    '2026-328',
    '20261124',
    '+002026-11-24',
    '1795514400',
    'Tue, 24 Nov 2026 10:00:00 GMT',
    '11/24/2026',
    1e300,
    Number.NaN,
    {},
  ])
    t.true(Number.isNaN(timeOf(none)), inspect(none));
});

test('names of prototypes are attributes like any other', (t) => {
  for (const attribute of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    const rule = { attribute, operator: 'exists', values: [] };
    t.is(outcomeOf([rule], {}).matched_rule, null, attribute);
    t.is(outcomeOf([rule], JSON.parse(`{"${attribute}":"x"}`)).matched_rule, 0, attribute);
  }
  const within = { attribute: 'a.__proto__.b', operator: 'exists', values: [] };
  t.is(outcomeOf([within], { a: {} }).matched_rule, null);
  t.is(({} as Record<string, unknown>)['b'], undefined);
});

test('a name with dots is a field of that name, or a path', (t) => {
  const rule = { attribute: 'address.country', operator: 'eq', values: ['CH'] };
  t.is(outcomeOf([rule], { address: { country: 'CH' } }).matched_rule, 0);
  t.is(outcomeOf([rule], { 'address.country': 'CH', address: { country: 'DE' } }).matched_rule, 0);
  t.is(outcomeOf([rule], { address: 'CH' }).matched_rule, null);
});

test('a rollout takes its part of all users, and a higher percentage takes nobody out', (t) => {
  const keys = Array.from({ length: 20_000 }, (_, n) => `user-${n}`);
  const within = (percent: number): Set<string> =>
    new Set(keys.filter((key) => outcomeOf([{ rollout: { percent } }], { targetingKey: key }).matched_rule === 0));
  let before = within(0);
  t.is(before.size, 0);
  for (const percent of [0.5, 10, 25.125, 50, 99.9]) {
    const now = within(percent);
    t.true(Math.abs(now.size / keys.length - percent / 100) < 0.01, `${percent}: ${now.size}`);
    t.deepEqual(before.difference(now).size, 0);
    before = now;
  }
  t.is(within(100).size, keys.length);
});

test('whoever has no attribute to be hashed is in no part of a rollout, but in all of it', (t) => {
  t.like(outcomeOf([{ rollout: { percent: 99 } }], {}), { reason: 'DEFAULT' });
  t.like(outcomeOf([{ rollout: { percent: 100 } }], {}), { reason: 'TARGETING_MATCH' });
  t.like(outcomeOf([{ rollout: { percent: 99.999, attribute: 'account' } }], { account: 7 }), { reason: 'SPLIT' });
  t.like(outcomeOf([{ rollout: { percent: 99.999 } }], { targetingKey: {} }), { matched_rule: null });
  t.like(outcomeOf([{ rollout: { percent: 99.999 } }], { targetingKey: 'x'.repeat(5000) }), { matched_rule: null });
});

test('variants share all users by their weights, and everybody keeps theirs', (t) => {
  const variants = [
    { name: 'red', value: 'r', percent: 20 },
    { name: 'blue', value: 'b', percent: 80 },
  ];
  const of = (key: string) =>
    outcomeOf([{ rollout: { variants } }], { targetingKey: key }, { flag_type: 'string', value: 'v' });
  const got = Array.from({ length: 10_000 }, (_, n) => of(`user-${n}`));
  t.true(Math.abs(got.filter(({ variant }) => variant === 'red').length / 10_000 - 0.2) < 0.02);
  t.true(got.every(({ reason, value, variant }) => reason === 'SPLIT' && value === (variant === 'red' ? 'r' : 'b')));
  t.deepEqual(of('user-1'), of('user-1'));
});

test('a bucket is that of the flag and the attribute', (t) => {
  t.is(bucketOf('flag', 'user'), murmur3('flag:user') % 100_000);
});

test('a segment lists keys, or has conditions', (t) => {
  const segments = {
    beta: { keys: new Set(['u1']), conditions: [] },
    swiss: { keys: null, conditions: compileConditions([{ attribute: 'country', operator: 'eq', values: ['CH'] }]) },
  };
  const of = (segment: string, context: object) => outcomeOf([{ segment }], { ...context }, {}, segments).matched_rule;
  t.is(of('beta', { targetingKey: 'u1' }), 0);
  t.is(of('beta', { targetingKey: 'u2' }), null);
  t.is(of('beta', {}), null);
  t.is(of('swiss', { country: 'CH' }), 0);
  t.is(of('gone', { targetingKey: 'u1' }), null);
});

test('a flag needs the values of its prerequisites', (t) => {
  const lookup = lookupOf({
    base: definition({ targeting_rules: [{ attribute: 'x', operator: 'eq', values: [1] }] }),
    needs: definition({ prerequisites: [{ key: 'base', value: true }] }),
    lost: definition({ prerequisites: [{ key: 'nowhere', value: true }] }),
    off: definition({ is_enabled: false }),
    needsOff: definition({ prerequisites: [{ key: 'off', value: false }] }),
    self: definition({ prerequisites: [{ key: 'self', value: true }] }),
  });
  const of = (key: string, context: object) => {
    const flag = lookup.flags.get(key) ?? compileFlag(key, definition());
    return evaluate(lookup, flag, { ...context });
  };
  t.like(of('needs', { x: 1 }), { value: true, reason: 'STATIC' });
  t.like(of('needs', { x: 2 }), { value: false, reason: 'PREREQUISITE_FAILED' });
  t.like(of('lost', {}), { reason: 'PREREQUISITE_FAILED' });
  t.like(of('needsOff', {}), { reason: 'PREREQUISITE_FAILED' });
  t.like(of('self', {}), { reason: 'PREREQUISITE_FAILED' });
});

test('an explanation names each rule with the check that failed', (t) => {
  const flag = compileFlag(
    'flag',
    definition({
      targeting_rules: [
        { attribute: 'plan', operator: 'eq', values: ['pro'] },
        { segment: 'beta' },
        { rollout: { percent: 0 } },
        { conditions: [] },
      ],
    }),
  );
  t.deepEqual(explain(lookupOf({}), flag, { targetingKey: 'u' }), [
    { rule: 0, matched: false, failed: { attribute: 'plan', operator: 'eq' } },
    { rule: 1, matched: false, failed: { attribute: 'beta', operator: 'segment' } },
    { rule: 2, matched: false, failed: { attribute: 'targetingKey', operator: 'rollout' } },
    { rule: 3, matched: true, failed: null },
  ]);
});

/** A segment of one condition that nobody fulfils. @param onTest called for each comparison */
const countedSegment = (onTest: () => void): CompiledSegment => ({
  keys: null,
  conditions: compileConditions([{ attribute: 'a', operator: 'exists' }]).map((condition) => ({
    ...condition,
    test: () => {
      onTest();
      return false;
    },
  })),
});

test('a segment is evaluated once for an answer, however many rules of however many flags name it', async (t) => {
  let calls = 0;
  const segments = { counted: countedSegment(() => (calls += 1)) };
  const rules = Array.from({ length: 1000 }, () => ({ segment: 'counted' }));
  t.like(outcomeOf(rules, { a: 1 }, {}, segments), { reason: 'DEFAULT' });
  t.is(calls, 1);
  const lookup = lookupOf(
    { one: definition({ targeting_rules: rules }), two: definition({ targeting_rules: rules }) },
    segments,
  );
  const outcomes = await evaluateAll(lookup as unknown as FlagSet, { a: 1 });
  t.is(outcomes.length, 2);
  t.is(calls, 2);
});

/** Each condition is searched for 200 values of 300 characters in a text of 4,096. */
const searched = (conditions: number) =>
  Array.from({ length: conditions }, () => ({
    attribute: 'a',
    operator: 'contains',
    values: Array.from({ length: 200 }, (_, n) => `${n}${'b'.repeat(300)}`),
  }));
const costly = { a: 'a'.repeat(4096) };

test('an evaluation that takes too much work ends with the default value and the reason ERROR', (t) => {
  const segments = { costly: { keys: null, conditions: compileConditions(searched(1)) } };
  const rules = [{ segment: 'costly' }, { attribute: 'a', operator: 'exists' }];
  const string = { flag_type: 'string', value: 'v', default_value: 'd' } as const;
  t.like(outcomeOf(rules, costly, string, segments), { value: 'd', reason: 'ERROR', matched_rule: null });
  t.like(outcomeOf(rules, { a: 'short' }, string, segments), { value: 'v', matched_rule: 1 });
  t.deepEqual(failureOfSegment(segments.costly, costly), { attribute: 'a', operator: 'work_limit' });
  const flag = compileFlag('flag', definition({ targeting_rules: rules }));
  t.deepEqual(
    explain(lookupOf({}, segments), flag, costly).map(({ failed }) => failed?.operator),
    ['work_limit', 'work_limit'],
  );
});

test('patterns, long values and the values of prerequisites count as work', (t) => {
  const pattern = { attribute: 'a', operator: 'matches', values: ['(.*){250}x'] };
  const text = { a: 'a'.repeat(1000) };
  t.like(outcomeOf([pattern, { conditions: [] }], text), { matched_rule: 1 });
  t.like(outcomeOf([pattern, pattern, pattern], text), { reason: 'ERROR' });
  const ends = { attribute: 'a', operator: 'ends_with', values: Array.from({ length: 200 }, () => 'a'.repeat(999)) };
  const many = Array.from({ length: 50 }, () => ({ ...ends, values: ends.values.map((value) => `b${value}`) }));
  t.like(outcomeOf(many, costly), { reason: 'ERROR' });
  const value = Array.from({ length: 300_000 }, () => 1);
  const lookup = lookupOf({
    large: definition({ flag_type: 'json', value }),
    needs: definition({
      prerequisites: [
        { key: 'large', value },
        { key: 'large', value: [...value] },
      ],
    }),
  });
  t.like(evaluate(lookup, lookup.flags.get('needs') ?? compileFlag('needs', definition()), {}), { reason: 'ERROR' });
});

test('flags that a flag needs take part of its work, and what they answer alone stays', (t) => {
  const many = Array.from({ length: 200 }, (_, n) => `needed-${n}`);
  // 200 short values in a text of 200 characters.
  const values = Array.from({ length: 200 }, (_, n) => `v${n}`);
  const rules = [{ attribute: 'a', operator: 'contains', values }];
  const lookup = lookupOf({
    ...Object.fromEntries(many.map((key) => [key, definition({ targeting_rules: rules, default_value: true })])),
    few: definition({ prerequisites: many.slice(0, 10).map((key) => ({ key, value: true })) }),
    all: definition({ prerequisites: many.map((key) => ({ key, value: true })) }),
  });
  const of = (key: string, progress = beginAnswer()) =>
    evaluate(lookup, lookup.flags.get(key) ?? compileFlag(key, definition()), { a: 'x'.repeat(200) }, progress).reason;
  t.is(of('few'), 'STATIC');
  t.is(of('all'), 'ERROR');
  const answer = beginAnswer();
  t.deepEqual(
    ['all', 'few', 'needed-0', 'needed-199'].map((key) => of(key, answer)),
    ['ERROR', 'STATIC', 'DEFAULT', 'DEFAULT'],
  );
});

test('all flags together have a bound, and those behind it are answered without comparing anything', (t) => {
  let calls = 0;
  const segments = { counted: countedSegment(() => (calls += 1)) };
  const lookup = lookupOf(
    { rules: definition({ targeting_rules: [{ segment: 'counted' }] }), plain: definition() },
    segments,
  );
  const progress = { ...beginAnswer(), leftOfAll: 0 };
  const of = (key: string) =>
    evaluate(lookup, lookup.flags.get(key) ?? compileFlag(key, definition()), { a: 1 }, progress).reason;
  t.deepEqual(['rules', 'plain'].map(of), ['ERROR', 'STATIC']);
  t.is(calls, 0);
});

test('flags as large as they may be are evaluated', (t) => {
  const five = Array.from({ length: 5 }, () => ({
    attribute: 'plan',
    operator: 'in',
    values: ['a', 'b', 'c', 'free'],
  }));
  const rules = Array.from({ length: 1000 }, () => ({ conditions: five, rollout: { percent: 0 } }));
  t.like(outcomeOf(rules, { plan: 'free', targetingKey: 'u'.repeat(64) }), { reason: 'DEFAULT' });
  const values = Array.from({ length: 200 }, (_, n) => `word-${n}`);
  const texts = Array.from({ length: 100 }, () => ({ attribute: 'agent', operator: 'contains', values }));
  t.like(outcomeOf(texts, { agent: 'x'.repeat(200) }), { reason: 'DEFAULT' });
  const patterns = Array.from({ length: 20 }, () => ({
    attribute: 'email',
    operator: 'matches',
    values: ['^[a-z.]{1,20}@(?:[a-z-]{1,20}\\.){1,2}[a-z]{2,6}$'],
  }));
  t.like(outcomeOf(patterns, { email: `${'x'.repeat(50)}@` }), { reason: 'DEFAULT' });
});

test('an answer for all flags gives way between two flags, however few there are', async (t) => {
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  const slow = countedSegment(() => {
    const until = performance.now() + 6;
    while (performance.now() < until);
  });
  const keys = ['a', 'b', 'c', 'd'];
  const lookup = lookupOf(
    Object.fromEntries(keys.map((key) => [key, definition({ targeting_rules: [{ segment: key }] })])),
    Object.fromEntries(keys.map((key) => [key, slow])),
  );
  setImmediate(turn);
  const outcomes = await evaluateAll(lookup as unknown as FlagSet, { a: 1 });
  isDone = true;
  t.is(outcomes.length, 4);
  t.true(turns >= 3, `${turns}`);
});

test('the text of a value is written once for all results that have it', (t) => {
  let calls = 0;
  const value = {
    toJSON: () => {
      calls += 1;
      return { list: 'x'.repeat(5000) };
    },
  };
  const rules = ['a', 'b', 'c'].map((name) => ({ attribute: name, operator: 'exists' }));
  const flag = compileFlag('flag', definition({ flag_type: 'json', value, targeting_rules: rules }));
  const lookup = { ...lookupOf({}), flags: new Map([['flag', flag]]) };
  const answers = [{ a: 1 }, { b: 1 }, { c: 1 }, { a: 1 }].map((context) =>
    singleText(evaluate(lookup, flag, context), false),
  );
  const expected = { key: 'flag', value: { list: 'x'.repeat(5000) }, reason: 'TARGETING_MATCH', variant: 'value' };
  for (const answer of answers) t.deepEqual(JSON.parse(answer), expected);
  t.deepEqual(JSON.parse(singleText(evaluate(lookup, flag, { a: 1 }), true)), {
    ...expected,
    metadata: { stale: true },
  });
  t.is(calls, 1);
});
