import type { JobOutcome } from '#queues/define.ts';

export const succeeded = (result: object): JobOutcome => ({
  status: 'succeeded',
  result: JSON.stringify(result),
  error: null,
});

export const failed = (code: string, message: string, result?: object): JobOutcome => ({
  status: 'failed',
  result: result ? JSON.stringify(result) : null,
  error: { code, message },
});
