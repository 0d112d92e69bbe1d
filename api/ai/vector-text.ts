import type { Readable } from 'node:stream';
import type { Vector } from '#domain/ai/providers/dialect.ts';
import { HoldingReadable } from '../holding-readable.ts';

/** Text of a few vectors at once, of many as a stream. */
export type VectorText = string | Readable;

export interface VectorParts {
  readonly head: string;
  readonly vectors: readonly Vector[];
  readonly write: (vector: Vector, index: number) => string;
  readonly tail: string;
}

// Some 3 ms of JSON.stringify. 2,048 vectors of 1,536 numbers at once are 60 MB of text and 0.5 s.
const maxNumbersAtOnce = 20_000;
// A double.
const bytesPerNumber = 8;

export const numbersText = (vector: Vector): string => JSON.stringify(Array.isArray(vector) ? vector : [...vector]);

function* partsOf({ head, vectors, write, tail }: VectorParts): Generator<string> {
  let text = head;
  let numbers = 0;
  for (const [index, vector] of vectors.entries()) {
    text += (index === 0 ? '' : ',') + write(vector, index);
    numbers += vector.length;
    if (numbers < maxNumbersAtOnce) continue;
    yield text;
    [text, numbers] = ['', 0];
  }
  yield text + tail;
}

/**
 * A JSON text with vectors in it, written in parts between which other requests are served, at the pace of its reader.
 */
export const vectorText = (parts: VectorParts): VectorText => {
  const numbers = parts.vectors.reduce((sum, { length }) => sum + length, 0);
  if (numbers <= maxNumbersAtOnce) return [...partsOf(parts)].join('');
  return new HoldingReadable(partsOf(parts), numbers * bytesPerNumber);
};
