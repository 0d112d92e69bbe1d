import { Readable } from 'node:stream';

/** Text that is made part by part, at the pace of its reader, of something that stays in memory until the last part. */
export class HoldingReadable extends Readable {
  /** Bytes that the source of the text takes in memory. */
  readonly heldLength: number;
  readonly #parts: Iterator<string>;

  constructor(parts: Iterator<string>, heldLength: number) {
    // No more than one part waits to be read.
    super({ encoding: 'utf8', highWaterMark: 1 });
    this.#parts = parts;
    this.heldLength = heldLength;
  }

  override _read(): void {
    // One part takes some 3 ms: others are served before the next.
    setImmediate(() => this.#push());
  }

  #push(): void {
    if (this.destroyed) return;
    try {
      const { done, value } = this.#parts.next();
      this.push(done === true ? null : value);
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error('a part could not be written', { cause: error }));
    }
  }
}
