import type { ClientBase } from 'pg';
import { AnswerTooLarge } from './answer-too-large.ts';
import { wireOf } from './wire.ts';

/**
 * Work whose statements answer no more than so much together. A definition or comment that a project wrote can be a
 * gigabyte, which pg would keep whole: beyond the limit the connection is cut.
 * @throws {AnswerTooLarge} the connection is gone then
 * @throws what `work` throws
 */
export const withinBytes = async <T>(client: ClientBase, max: number, work: () => Promise<T>): Promise<T> => {
  const { stream } = wireOf(client);
  let bytes = 0;
  let tooLarge: AnswerTooLarge | null = null;
  const count = ({ length }: Buffer): void => {
    bytes += length;
    if (bytes <= max || tooLarge !== null) return;
    tooLarge = new AnswerTooLarge(`more than ${max} bytes came back`);
    stream.destroy(tooLarge);
  };
  stream.on('data', count);
  try {
    return await work();
  } catch (error) {
    throw tooLarge ?? error;
  } finally {
    stream.off('data', count);
  }
};
