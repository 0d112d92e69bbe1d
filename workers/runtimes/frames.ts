import type { Writable } from 'node:stream';
import { scanJson } from '#lib/json-scan.ts';

/** A frame is its length (4 bytes, big endian) and a JSON text: what host and guest say to each other on fd 3. */
const headerBytes = 4;
/** A result of 1 MiB whose every character is escaped stays below this. */
const maxFrameBytes = 16 * 1024 * 1024;

/** One buffer, and so one plain write to the socket. */
export function writeFrame(stream: Writable, message: object): void {
  const text = JSON.stringify(message);
  const length = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(headerBytes + length);
  frame.writeUInt32BE(length);
  frame.write(text, headerBytes);
  stream.write(frame);
}

/** Texts travel as strings within a frame, so that it has few parts: ten thousand lines of log have 40,000. */
const frameLimits = { maxParts: 200_000, maxDepth: 100 };
const maxPlainFrameBytes = 65_536;

const parseFrame = (bytes: Buffer): unknown => {
  if (bytes.length > maxPlainFrameBytes) {
    const { verdict } = scanJson(bytes, frameLimits);
    if (verdict !== 'valid') throw new Error(`a frame of ${bytes.length} bytes that is ${verdict}`);
  }
  return JSON.parse(bytes.toString());
};

/** Cuts the guest's byte stream into messages. The guest is not trusted: what it sends is parsed, never believed. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #wanted = headerBytes;

  /** @throws when the stream holds anything but frames of a sane length */
  *push(chunk: Buffer): Generator {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    while (this.#bytes >= this.#wanted) {
      const all = this.#joined();
      const length = all.readUInt32BE(0);
      if (length > maxFrameBytes) throw new Error(`a frame of ${length} bytes`);
      this.#wanted = headerBytes + length;
      if (this.#bytes < this.#wanted) return;
      yield parseFrame(all.subarray(headerBytes, this.#wanted));
      this.#take();
    }
  }

  /**
   * Copies only what came in several chunks: copying the rest of a chunk for each of its frames takes quadratic time.
   */
  #joined(): Buffer {
    const [only] = this.#chunks;
    if (only !== undefined && this.#chunks.length === 1) return only;
    const all = Buffer.concat(this.#chunks, this.#bytes);
    this.#chunks = [all];
    return all;
  }

  #take(): void {
    const [all = Buffer.alloc(0)] = this.#chunks;
    this.#chunks = [all.subarray(this.#wanted)];
    this.#bytes -= this.#wanted;
    this.#wanted = headerBytes;
  }
}
