import test from 'ava';
import { z } from 'zod';
import { checkBody } from '#api/validate.ts';
import { ServiceError } from '#lib/errors.ts';

test('a list of a megabyte is refused for its length, in one line', (t) => {
  const body = z.strictObject({ names: z.array(z.string()).max(10), codes: z.array(z.string()).max(1).optional() });
  const refusal = (given: unknown) => t.throws(() => checkBody({ body }, given), { instanceOf: ServiceError })?.details;
  const names = Array.from({ length: 500_000 }, () => 0);
  t.deepEqual(refusal({ names }), [{ path: 'names', message: 'must have at most 10 items' }]);
  t.deepEqual(refusal({ names: [], codes: ['a', 'b'] }), [{ path: 'codes', message: 'must have at most 1 item' }]);
  t.deepEqual(refusal({ names: [0] }), [{ path: 'names.0', message: 'must be text' }]);
  t.deepEqual(checkBody({ body }, { names: ['a'] }), { names: ['a'] });
});
