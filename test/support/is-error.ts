import type { ExecutionContext } from 'ava';
import type { Answer } from './client.ts';
import type { RawAnswer } from './raw-http.ts';

const headerOf = ({ headers }: Answer | RawAnswer, name: string): string | undefined =>
  headers instanceof Headers ? (headers.get(name) ?? undefined) : headers[name];

/** Asserts the one error body of the contract, with the request id of the header in it. */
export const isError = (t: ExecutionContext, answer: Answer | RawAnswer, status: number, code: string): void => {
  t.is(answer.status, status, answer.text);
  t.deepEqual(Object.keys(answer.body ?? {}), ['code', 'message', 'details', 'hint', 'request_id']);
  t.is(answer.body.code, code);
  t.is(typeof answer.body.message, 'string');
  t.is(answer.body.request_id, headerOf(answer, 'x-request-id'));
  t.is(headerOf(answer, 'content-type'), 'application/json; charset=utf-8');
};
