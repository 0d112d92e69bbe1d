import test from 'ava';
import { ServiceError, isDependencyFailure, notFound, toServiceError } from '#lib/errors.ts';

const withCode = (code: string, more: object = {}): Error => Object.assign(new Error('x'), { code, ...more });

test('a ServiceError passes as it is', (t) => {
  const error = new ServiceError('conflict', 'No.', { details: [1], hint: 'Try.', headers: { A: 'b' } });
  t.is(toServiceError(error), error);
  t.like(error, { status: 409, code: 'conflict', details: [1], hint: 'Try.', headers: { A: 'b' } });
  t.like(notFound('project'), { status: 404, details: null, hint: null, headers: {} });
});

test('a server that was too slow, or a pool without a free connection, is overloaded', (t) => {
  for (const failure of [withCode('57014'), new Error('timeout exceeded when trying to connect')]) {
    const error = toServiceError(failure, () => false);
    t.like(error, { code: 'overloaded', status: 503, cause: failure });
    t.truthy(error.headers['Retry-After']);
  }
});

test('a server that cannot be reached or cannot serve now is dependency_unavailable', (t) => {
  const failures = [
    withCode('ECONNREFUSED'),
    withCode('ECONNRESET'),
    withCode('08006'),
    withCode('53300'),
    withCode('57P01'),
    withCode('40P01'),
    withCode('ENOENT', { syscall: 'connect' }),
    new Error('Connection terminated unexpectedly'),
    new Error('Command timed out'),
    new Error("Stream isn't writeable and enableOfflineQueue options is false"),
    new Error('LOADING Redis is loading the dataset in memory'),
    new Error("READONLY You can't write against a read only replica."),
    new Error("OOM command not allowed when used memory > 'maxmemory'."),
    new AggregateError([withCode('ECONNREFUSED'), withCode('ECONNREFUSED')]),
  ];
  for (const failure of failures) {
    const error = toServiceError(failure, () => false);
    t.is(error.code, 'dependency_unavailable', failure.message);
    t.is(error.status, 503);
    t.truthy(error.headers['Retry-After']);
    t.is(error.cause, failure);
  }
});

test('anything else is internal and tells nothing', (t) => {
  const faults: unknown[] = [
    new TypeError('secret detail'),
    withCode('ENOENT', { syscall: 'open' }),
    withCode('23505'),
    withCode('42P01'),
    new Error('the LOADING of a module'),
    new AggregateError([new Error('secret detail')]),
    'secret detail',
    undefined,
    null,
    42,
  ];
  for (const fault of faults) {
    t.false(isDependencyFailure(fault));
    const error = toServiceError(fault);
    t.is(error.status, 500);
    t.is(error.code, 'internal');
    t.notRegex(error.message, /secret/);
    t.is(error.details, null);
  }
});
