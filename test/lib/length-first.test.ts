import test from 'ava';
import { z } from 'zod';
import { lengthFirst } from '#lib/length-first.ts';

const counted = () => {
  let seen = 0;
  const element = z.custom(() => {
    seen += 1;
    return true;
  });
  return { element, seen: () => seen };
};

const zeros = Array.from({ length: 500_000 }, () => 0);

const places: readonly [where: string, schema: (list: z.ZodType) => z.ZodType, value: (list: unknown) => unknown][] = [
  ['by itself', (list) => list, (list) => list],
  ['in an object', (list) => z.strictObject({ a: list.optional() }), (list) => ({ a: list })],
  ['in a list', (list) => z.array(z.object({ a: list })).max(3), (list) => [{ a: list }]],
  ['in a record', (list) => z.record(z.string(), list), (list) => ({ a: list })],
  ['in a union', (list) => z.union([z.string(), list]), (list) => list],
  [
    'in a discriminated union',
    (list) => z.discriminatedUnion('is', [z.object({ is: z.literal('b') }), z.object({ is: z.literal('a'), a: list })]),
    (list) => ({ is: 'a', a: list }),
  ],
  ['with a default', (list) => z.object({ a: list.default([]) }), (list) => ({ a: list })],
  ['behind a preparation', (list) => z.preprocess((value) => value, list), (list) => list],
  ['in a tuple', (list) => z.tuple([z.string(), list]), (list) => ['', list]],
];

for (const [where, schemaOf, valueOf] of places) {
  test(`a list ${where} that is too long is refused before its elements are looked at`, (t) => {
    const { element, seen } = counted();
    const schema = lengthFirst(schemaOf(z.array(element).min(1).max(100)));
    t.false(schema.safeParse(valueOf(zeros)).success);
    t.is(seen(), 0);
    t.true(schema.safeParse(valueOf(zeros.slice(0, 100))).success);
    t.true(seen() >= 100);
  });
}

test('the refusal is the one that the schema has for a list that is too long, and the only one', (t) => {
  const refused: unknown[] = [];
  const schema = lengthFirst(
    z
      .object({ a: z.array(z.string()).max(2, 'at most two'), b: z.array(z.string()).max(2) })
      .refine((value) => refused.push(value)),
  );
  const { error } = schema.safeParse({ a: zeros, b: ['x', 0] });
  t.deepEqual(
    error?.issues.map(({ code, path, message }) => [code, path.join('.'), message]),
    [
      ['too_big', 'a', 'at most two'],
      ['invalid_type', 'b.1', 'Invalid input: expected string, received number'],
    ],
  );
  t.deepEqual(refused, [], 'no elements that were not checked reach what comes behind');
});

test('a schema that is prepared twice is the same', (t) => {
  const schema = z.array(z.int()).max(2);
  t.is(lengthFirst(lengthFirst(schema)), schema);
  t.deepEqual(schema.parse([1, 2]), [1, 2]);
  t.is(schema.safeParse([1, 2, 3]).error?.issues.length, 1);
});
