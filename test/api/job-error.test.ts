import test from 'ava';
import { aiJobFailure } from '#api/job-error.ts';

for (const [code, status, reported] of [
  ['provider_bad_output', 502, 'provider_bad_output'],
  ['dimension_mismatch', 400, 'dimension_mismatch'],
  ['plan_limit_exceeded', 403, 'plan_limit_exceeded'],
  ['cancelled', 409, 'conflict'],
  ['timeout', 504, 'provider_timeout'],
  ['crashed', 503, 'dependency_unavailable'],
  ['23514', 400, '23514'],
] as const) {
  test(`a job of models that ended with ${code} is told as ${status} ${reported}`, (t) => {
    const details = [{ path: 'x', message: 'y' }];
    t.like(aiJobFailure({ code, message: 'why' }, details), { status, code: reported, message: 'why', details });
  });
}

test('a job of models that ended without a word is 500 internal', (t) => {
  t.like(aiJobFailure(null), { status: 500, code: 'internal' });
});
