import test from 'ava';
import { createChainCheck, faultsOf, faultsOfSegment } from '#domain/flags/check.ts';
import type { FlagDefinition, Rule } from '#domain/flags/definition.ts';
import { definition } from './scene.ts';

const pathsOf = (given: Partial<FlagDefinition>): string[] =>
  faultsOf('flag', definition(given)).map(({ path }) => path);
const ofRule = (rule: Rule): string[] => pathsOf({ targeting_rules: [rule] });

test('a flag without faults has none', (t) => {
  t.deepEqual(pathsOf({}), []);
  t.deepEqual(pathsOf({ flag_type: 'json', value: { a: [1, null] }, json_schema: {} }), []);
  t.deepEqual(ofRule({ rollout: { percent: 12.345 } }), []);
});

test('values have to be of the type of the flag', (t) => {
  t.deepEqual(pathsOf({ value: 'true' }), ['value']);
  t.deepEqual(pathsOf({ flag_type: 'string', value: 1 }), ['value']);
  t.deepEqual(pathsOf({ flag_type: 'number', value: Number.NaN }), ['value']);
  t.deepEqual(pathsOf({ flag_type: 'number', value: 2 ** 53 }), ['value']);
  t.deepEqual(pathsOf({ flag_type: 'json', value: 'text' }), ['value']);
  t.deepEqual(pathsOf({ flag_type: 'json', value: { a: 2 ** 60 } }), ['value']);
  t.deepEqual(pathsOf({ flag_type: 'json', value: { a: 'x\0' } }), ['value']);
  t.deepEqual(pathsOf({ flag_type: 'string', value: '\ud800' }), ['value']);
  t.deepEqual(pathsOf({ default_value: 3 }), ['default_value']);
  t.deepEqual(ofRule({ conditions: [], value: 'x' }), ['targeting_rules.0.value']);
  t.deepEqual(pathsOf({ json_schema: {} }), ['json_schema']);
});

const values = (operator: string, given: (string | number)[]) => ofRule({ attribute: 'a', operator, values: given });

test('conditions have a known operator and values that fit it', (t) => {
  t.deepEqual(values('like', ['a']), ['targeting_rules.0.operator']);
  t.deepEqual(values('toString', ['a']), ['targeting_rules.0.operator']);
  for (const [operator, given] of [
    ['in', []],
    ['gt', ['5']],
    ['gt', [1, 2]],
    ['before', ['soon']],
    ['before', ['2026-02-30']],
    ['semver_gt', ['1.x']],
    ['exists', ['a']],
    ['starts_with', [1]],
    ['eq', [2 ** 53]],
    ['matches', ['(']],
    ['matches', ['(?=a)']],
    ['matches', ['(a)\\1']],
    ['matches', ['x{1001}']],
    ['matches', ['((a{100}){100}){100}']],
  ] as const) {
    t.deepEqual(values(operator, [...given]), ['targeting_rules.0.values'], `${operator} ${given.join()}`);
  }
});

test('a rule has one form', (t) => {
  t.deepEqual(ofRule({ attribute: 'a', operator: 'exists', conditions: [] }), ['targeting_rules.0']);
  t.deepEqual(ofRule({ attribute: 'a' }), ['targeting_rules.0']);
  t.deepEqual(ofRule({ values: ['a'] }), ['targeting_rules.0.values']);
});

test('percentages are within 0 and 100, in steps of 0.001, and those of variants make 100', (t) => {
  const [at, base] = ['targeting_rules.0.rollout', { value: true }];
  t.deepEqual(ofRule({ rollout: { percent: 101 } }), [`${at}.percent`]);
  t.deepEqual(ofRule({ rollout: { percent: -1 } }), [`${at}.percent`]);
  t.deepEqual(ofRule({ rollout: { percent: Number.NaN } }), [`${at}.percent`]);
  t.deepEqual(ofRule({ rollout: { percent: 0.0001 } }), [`${at}.percent`]);
  const sum = (...percents: number[]) =>
    ofRule({ rollout: { variants: percents.map((percent) => ({ ...base, percent })) } });
  t.deepEqual(sum(50, 49.999), [`${at}.variants`]);
  t.deepEqual(sum(33.333, 33.333, 33.334), []);
  t.deepEqual(sum(), [`${at}.variants`]);
  t.deepEqual(ofRule({ value: true, rollout: { variants: [{ ...base, percent: 100 }] } }), ['targeting_rules.0.value']);
});

test('sizes are bounded: rules, conditions, values, patterns', (t) => {
  const rule = { attribute: 'a', operator: 'eq', values: ['b'] };
  t.deepEqual(pathsOf({ targeting_rules: Array.from({ length: 1000 }, () => rule) }), []);
  t.deepEqual(pathsOf({ targeting_rules: Array.from({ length: 1001 }, () => rule) }), ['targeting_rules']);
  const many = Array.from({ length: 20_001 }, (_, n) => `v${n}`);
  t.deepEqual(pathsOf({ targeting_rules: [{ ...rule, values: many }] }), ['targeting_rules']);
  const pattern = { attribute: 'a', operator: 'matches', values: ['(.*){250}x'] };
  t.deepEqual(pathsOf({ targeting_rules: [pattern, pattern, pattern] }), ['targeting_rules']);
});

/** Flags of an environment, with the keys of their prerequisites. */
const flags = (needs: Readonly<Record<string, readonly string[]>>): Map<string, FlagDefinition> =>
  new Map(
    Object.entries(needs).map(([key, keys]) => [
      key,
      definition({ prerequisites: keys.map((needed) => ({ key: needed, value: true })) }),
    ]),
  );

const faultOfChain = (key: string, of: ReturnType<typeof flags>): string | null => createChainCheck(of)(key);

test('prerequisites form no circle and no long chain', (t) => {
  t.is(faultOfChain('a', flags({ a: ['b', 'c'], b: ['c'], c: [] })), null);
  t.regex(faultOfChain('a', flags({ a: ['b'], b: ['c'], c: ['a'] })) ?? '', /circle: a → b → c → a/);
  t.regex(faultOfChain('a', flags({ a: ['gone'] })) ?? '', /no flag gone/);
  const chain = Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`f${n}`, n < 11 ? [`f${n + 1}`] : []]));
  t.regex(faultOfChain('f0', flags(chain)) ?? '', /at most 10/);
  t.deepEqual(faultsOf('a', definition({ prerequisites: [{ key: 'a', value: true }] })).length, 1);
});

test('the prerequisites of all flags are looked at once, and a fault of one is no circle of another', (t) => {
  let reads = 0;
  const counted = new Map<string, Pick<FlagDefinition, 'prerequisites'>>();
  const layers = 10;
  const width = 100;
  for (let n = 0; n < layers * width; n += 1) {
    const below = Math.floor(n / width) + 1;
    const needed =
      below === layers ? [] : Array.from({ length: 10 }, (_, m) => `f${below * width + ((n + m) % width)}`);
    const prerequisites = needed.map((key) => ({ key, value: true }));
    counted.set(`f${n}`, {
      get prerequisites() {
        reads += 1;
        return prerequisites;
      },
    });
  }
  const check = createChainCheck(counted);
  for (const key of counted.keys()) t.is(check(key), null);
  t.is(reads, layers * width);
  const broken = createChainCheck(flags({ a: ['b'], b: ['gone'], c: ['b'], d: ['e'], e: ['d'] }));
  for (const key of ['a', 'c', 'a']) t.regex(broken(key) ?? '', /no flag gone/, key);
  for (const key of ['d', 'e', 'd']) t.regex(broken(key) ?? '', /circle/, key);
});

const pattern = (text: string): Rule => ({ attribute: 'a', operator: 'matches', values: [text] });

test('patterns are few, and what would take long to compile is refused before it is compiled', (t) => {
  const rules = (length: number, text = 'a'): Rule[] => Array.from({ length }, () => pattern(text));
  t.deepEqual(pathsOf({ targeting_rules: rules(20) }), []);
  t.deepEqual(faultsOf('flag', definition({ targeting_rules: rules(21) })), [
    { path: 'targeting_rules', message: 'has at most 20 conditions with the operator matches' },
  ]);
  // Invalid ones count, too.
  t.deepEqual(pathsOf({ targeting_rules: rules(2000, '(').slice(0, 1000) }), ['targeting_rules']);
  const conditions = Array.from({ length: 21 }, () => ({ attribute: 'a', operator: 'matches', values: ['('] }));
  t.deepEqual(
    faultsOfSegment(conditions).map(({ path }) => path),
    ['conditions'],
  );
  // The first that is none ends the check.
  t.deepEqual(pathsOf({ targeting_rules: [pattern('a'), ...rules(10, '(')] }), ['targeting_rules.1.values']);
  t.deepEqual(
    faultsOfSegment(conditions.slice(0, 3)).map(({ path }) => path),
    ['conditions.0.values'],
  );
  const within = { conditions: [{ attribute: 'a', operator: 'exists' }, ...conditions.slice(0, 1)] };
  t.deepEqual(pathsOf({ targeting_rules: [within] }), ['targeting_rules.0.conditions.1.values']);
});

const messageOf = (text: string): string =>
  faultsOf('flag', definition({ targeting_rules: [pattern(text)] }))
    .map(({ message }) => message)
    .join();

test('a pattern that ignores case has no wide ranges, however they are written', (t) => {
  for (const text of [
    `(?i)[${'B-\\x{1e941}'.repeat(20)}]`,
    `(?i)[${'B-\\x{1e941}'.repeat(20)}z-a]`,
    '(?i)[B-\\x{1e941}]',
    '(?si:[-A-\\x{1e942}])',
    '(?i)[\\\\x{1e941}-\\x{1e942}]',
    'x-[(?i)](?i)[[-\\x{1e000}]',
    '(?i)[\\102-\u{1e941}]',
    '(?i)[^]-\u{1e941}]',
  ])
    t.regex(messageOf(text), /ignores case, so that its ranges/, text);
  for (const text of ['(?i)^[a-zà-ÿ]+$', '(?i)[一-龥a-z]', '(?i)[\\x{0}-\\x{10ffff}]', '[B-\\x{1e941}]'])
    t.is(messageOf(text), '', text);
});

test('repetitions and classes of Unicode are counted before a pattern is compiled', (t) => {
  for (const text of [
    `(?:${'abcdefghij'.repeat(28)}){1000}`,
    `(?:${'abcdefghij'.repeat(26)})(?i){1000}`,
    `(?:${'abcdefghij'.repeat(26)})\\Q\\E{1000}`,
    '((a{100}){10}){10}',
    '(?P<name>[]a{]xxxxxxxx){500,}',
  ])
    t.regex(messageOf(text), /its repetitions make more than/, text);
  t.regex(messageOf(`[${'\\pL'.repeat(90)}]`), /at most 20 classes of Unicode/);
  for (const text of [
    '^(?:[a-z0-9-]{1,63}\\.){1,8}[a-z]{2,63}$',
    '[{(]{1000}',
    '\\Q(((\\E{3}',
    '^[\\p{L}\\p{N}._-]{1,64}@example\\.(?:com|org)$',
  ])
    t.is(messageOf(text), '', text);
});

const together = (text: string, other: string): string =>
  faultsOf('flag', definition({ targeting_rules: [pattern(text), pattern(other)] }))
    .map(({ path, message }) => `${path} ${message}`)
    .join();

test('what compiling takes is bounded for the patterns of a flag together', (t) => {
  const message = 'targeting_rules its patterns are too large together';
  t.is(together('(?i)[一-龥]', '(?i)[一-龥]'), message);
  t.is(together(`[${'\\pL'.repeat(11)}]`, `[${'\\pN'.repeat(11)}]`), message);
  // The second is none, which is not found out.
  t.is(together('(?:ab?){700}', '(?:ab?){700}('), message);
  t.is(together('[一-龥]', '(?i)[一-龥]'), '');
});

test('a condition that is searched has few values, one that is looked up many', (t) => {
  const many = Array.from({ length: 201 }, (_, n) => `v${n}`);
  for (const operator of ['contains', 'starts_with', 'ends_with']) {
    t.deepEqual(values(operator, many.slice(1)), [], operator);
    t.deepEqual(values(operator, many), ['targeting_rules.0.values'], operator);
  }
  for (const operator of ['in', 'not_in', 'eq', 'neq']) t.deepEqual(values(operator, many), [], operator);
});
