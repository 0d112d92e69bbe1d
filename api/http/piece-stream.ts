import { Readable } from 'node:stream';

/** Encoding and writing that much at once takes about 1 ms; 12 MB at once held the event loop up for 40 to 65 ms. */
export const wholeAnswer = 256 * 1024;
const pieceLength = 128 * 1024;

type Part = string | Buffer;

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;

/** Where a piece ends that begins at `from`: not within a pair of surrogates, which would be encoded as two U+FFFD. */
const pieceEnd = (part: Part, from: number): number => {
  const end = Math.min(part.length, from + pieceLength);
  const splits = typeof part === 'string' && end < part.length && isHighSurrogate(part.charCodeAt(end - 1));
  return splits ? end - 1 : end;
};

const encoded = (part: Part, from: number, end: number): Buffer =>
  typeof part === 'string' ? Buffer.from(part.slice(from, end)) : part.subarray(from, end);

/** A long body whose pieces are encoded when the reader has room, in separate turns of the event loop. */
export class PieceStream extends Readable {
  readonly #parts: Part[];
  #at = 0;
  /** The length of all parts, in characters or bytes, as they are held in memory. */
  readonly heldLength: number;

  /** @param parts in order; no pair of surrogates is split between two of them */
  constructor(parts: readonly Part[]) {
    super({ highWaterMark: pieceLength });
    this.#parts = parts.filter(({ length }) => length > 0);
    this.heldLength = parts.reduce((sum, { length }) => sum + length, 0);
  }

  override _read(): void {
    setImmediate(() => this.#next());
  }

  #next(): void {
    const [part] = this.#parts;
    if (part === undefined) return void this.push(null);
    const from = this.#at;
    const end = pieceEnd(part, from);
    this.#at = end;
    if (end === part.length) {
      this.#parts.shift();
      this.#at = 0;
    }
    this.push(encoded(part, from, end));
  }
}
