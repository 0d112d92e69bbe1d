import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { maxBodyBytes } from './arguments.ts';
import { failed } from './request.ts';

const chunkBytes = 256 * 1024;

/** The body of an answer, handed on in pieces when they are asked for: no more of it is held than what came last. */
export class ResponseBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();
  #bytes = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(reader: ReadableStreamDefaultReader<Uint8Array>) {
    this.#reader = reader;
  }

  /**
   * The next piece, at most 256 KB; null at the end.
   * @throws {CallFault} beyond 10 MB
   * @throws what reading throws
   */
  read(): Promise<Uint8Array | null> {
    // One after the other, so that pieces do not change places.
    const queued = this.#last.then(() => this.#next());
    this.#last = queued.catch(() => undefined);
    return queued;
  }

  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => undefined);
  }

  async #next(): Promise<Uint8Array | null> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#reader.read();
      if (done) return null;
      this.#take(value);
    }
    const piece = this.#rest.subarray(0, chunkBytes);
    this.#rest = this.#rest.subarray(chunkBytes);
    return piece;
  }

  #take(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    if (this.#bytes > maxBodyBytes) throw failed(`the answer is larger than ${maxBodyBytes / 1024 / 1024} MB.`);
    this.#rest = bytes;
  }
}
