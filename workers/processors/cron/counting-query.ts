import type { ClientBase, Submittable } from 'pg';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { type Done, type Wire, doneOf, wireOf } from '#lib/postgres/wire.ts';

// Rows are counted by the server and not kept, but they come through our memory: all of them, and one at a time.
const maxBytes = 16 * 1024 * 1024;
const maxMessageBytes = 1024 * 1024;

const ignore = (): void => undefined;

/** pg's own query keeps every row, and a column description for each statement: this one keeps the last tag. */
const submittable = (
  sql: string,
  resolve: (done: Done) => void,
  reject: (error: unknown) => void,
): Submittable & Record<string, unknown> => {
  let tag = '';
  return {
    submit: (connection) => connection.query(sql),
    handleRowDescription: ignore,
    handleDataRow: ignore,
    handleEmptyQuery: ignore,
    handlePortalSuspended: ignore,
    handleCopyData: ignore,
    handleCopyInResponse: (wire: Wire) => wire.sendCopyFail('there is nothing to copy from'),
    handleCommandComplete: ({ text }: { readonly text: string }) => {
      tag = text;
    },
    handleError: reject,
    handleReadyForQuery: () => resolve(doneOf(tag)),
  };
};

/**
 * Runs one or several statements and keeps of what comes back only what the last one did. The connection is not to be
 * used afterwards.
 * @throws {AnswerTooLarge} above 16 MB, or 1 MB for one row or message
 * @throws what pg throws
 */
export const runCounting = (client: ClientBase, sql: string): Promise<Done> => {
  const wire = wireOf(client);
  const { stream } = wire;
  return new Promise((resolve, reject) => {
    let all = 0;
    let unread = 0;
    // pg's parser has its listener first: its messages of a chunk are emitted before the chunk is counted.
    wire.on('message', () => {
      unread = 0;
    });
    stream.on('data', ({ length }: Buffer) => {
      all += length;
      unread += length;
      if (all <= maxBytes && unread <= maxMessageBytes) return;
      reject(new AnswerTooLarge('too much came back'));
      stream.destroy();
    });
    client.query(submittable(sql, resolve, reject));
  });
};
