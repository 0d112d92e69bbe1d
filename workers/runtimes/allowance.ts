import type { Readable } from 'node:stream';

/** What a guest may say in a second, and at once after a silence. Honest ones stay far below. */
const messagesPerSecond = 10_000;
const bytesPerSecond = 32 * 1024 * 1024;
const longestPauseMs = 250;

/**
 * Reading costs the worker time that other runs need, and a guest can write faster than anybody reads. One that says too
 * much is read more slowly, until its own buffers are full; nothing is lost.
 */
export class Allowance {
  #messages = messagesPerSecond;
  #bytes = bytesPerSecond;
  #at = performance.now();

  /** @returns for how many ms nothing more should be read */
  spend(bytes: number, messages: number): number {
    const now = performance.now();
    const seconds = (now - this.#at) / 1000;
    this.#at = now;
    this.#messages = Math.min(messagesPerSecond, this.#messages + seconds * messagesPerSecond) - messages;
    this.#bytes = Math.min(bytesPerSecond, this.#bytes + seconds * bytesPerSecond) - bytes;
    const debt = Math.max(-this.#messages / messagesPerSecond, -this.#bytes / bytesPerSecond, 0);
    return Math.min(longestPauseMs, debt * 1000);
  }
}

/** Reads a stream within an allowance. @param onChunk answers how many messages there were */
export function readWithin(stream: Readable, allowance: Allowance, onChunk: (chunk: Buffer) => number): void {
  stream.on('data', (chunk: Buffer) => {
    const pauseMs = allowance.spend(chunk.length, onChunk(chunk));
    if (pauseMs === 0) return;
    stream.pause();
    setTimeout(() => stream.resume(), pauseMs);
  });
}
