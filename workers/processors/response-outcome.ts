import { resultOf, wholeResponse } from '#domain/functions/response.ts';
import type { RunStatus } from '#queues/function-invoke.ts';
import type { RunOutcome } from '../runtimes/runtime.ts';
import type { AnswerFailure, AnswerSink } from '../services/answer/sink.ts';

/** A run as it is recorded: where it answered with a response, that is its result. */
export interface AnsweredRun extends Omit<RunOutcome, 'response'> {
  readonly response?: 'text' | 'base64' | 'stream' | undefined;
}

const failed = (run: RunOutcome, [status, name, message]: readonly [RunStatus, string, string]): AnsweredRun => ({
  ...run,
  status,
  result: null,
  error: { name, message, stack: '' },
  response: undefined,
});

const endsOf = {
  left: ['cancelled', 'AbortError', 'The client left before it had the whole answer.'],
  broken: ['cancelled', 'AbortError', 'The answer could not be sent on: the connection to the caller broke off.'],
  too_large: ['result_too_large', 'ResultTooLargeError', 'The response is larger than it may be.'],
} as const satisfies Record<AnswerFailure, readonly [RunStatus, string, string]>;

/** A response that came whole. User code has made it: it is checked here. */
const wholeRun = (run: RunOutcome, form: 'text' | 'base64'): AnsweredRun => {
  const response = wholeResponse(run.result ?? 'null', form);
  if (typeof response === 'string') return failed(run, ['error', 'TypeError', `The response ${response}.`]);
  const { json, kind } = resultOf(response.head, response.body);
  return { ...run, result: json, response: kind };
};

const sentResponse = (run: RunOutcome, sink: AnswerSink): AnsweredRun => {
  const result = sink.result();
  if (result === null) return failed(run, ['error', 'Error', 'The response has no end.']);
  return { ...run, result: result.json, response: result.kind };
};

/** Returns the run with its response in the form in which it is recorded. */
export const answeredRun = (run: RunOutcome, sink: AnswerSink): AnsweredRun => {
  const { failure } = sink;
  if (failure !== null && run.started) return failed(run, endsOf[failure]);
  const { response, ...value } = run;
  if (response === undefined) return value;
  if (response === 'sent') return sentResponse(run, sink);
  return wholeRun(run, response);
};
