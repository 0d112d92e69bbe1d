import type { JobOutcome } from '#queues/define.ts';

export const succeeded = (result: object): JobOutcome => ({
  status: 'succeeded',
  result: JSON.stringify(result),
  error: null,
});

const keptMessageBytes = 4096;

/** Messages of user code may have any size. */
const cut = (message: string): string => {
  // In UTF-8 a character has at least one byte, so that longer ones need not be encoded whole.
  const bytes = Buffer.from(message.slice(0, keptMessageBytes));
  if (message.length <= keptMessageBytes && bytes.length <= keptMessageBytes) return message;
  // `stream`: a character that is cut through is left out.
  return `${new TextDecoder().decode(bytes.subarray(0, keptMessageBytes - 3), { stream: true })}…`;
};

export const failed = (code: string, message: string, result?: object): JobOutcome => ({
  status: 'failed',
  result: result ? JSON.stringify(result) : null,
  error: { code, message: cut(message) },
});
