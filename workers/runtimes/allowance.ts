import type { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';

/** The messages that a guest may send in a second, and at once after a silence. Honest ones stay far below. */
const messagesPerSecond = 10_000;
const bytesPerSecond = 32 * 1024 * 1024;
const maxPauseMs = 250;

/**
 * Reading costs the worker time that other runs need, and a guest can write faster than anybody reads. One that says
 * too much is read more slowly, until its own buffers are full; nothing is lost.
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
    return Math.min(maxPauseMs, debt * 1000);
  }
}

/** The event loop time for the messages of one guest; after that other work is done first. */
const maxTurnMs = 2;

/**
 * Takes all steps; yields to the event loop every 2 ms.
 * @param steps each yields how many messages it has dealt with
 * @returns the sum, at once when one turn was enough
 */
export const inTurns = (steps: Iterator<number, unknown>, before = 0): number | Promise<number> => {
  const began = performance.now();
  let messages = before;
  for (let step = steps.next(); step.done !== true; step = steps.next()) {
    messages += step.value;
    if (performance.now() - began > maxTurnMs) return setImmediate().then(() => inTurns(steps, messages));
  }
  return messages;
};

/**
 * Reads a stream within an allowance.
 * @param onChunk answers how many messages there were; until then nothing more is read
 */
export function readWithin(
  stream: Readable,
  allowance: Allowance,
  onChunk: (chunk: Buffer) => number | Promise<number>,
): void {
  const spend = (chunk: Buffer, messages: number): void => {
    const pauseMs = allowance.spend(chunk.length, messages);
    if (pauseMs === 0) return;
    stream.pause();
    setTimeout(() => stream.resume(), pauseMs);
  };
  const spendLater = async (chunk: Buffer, messages: Promise<number>): Promise<void> => {
    const count = await messages;
    stream.resume();
    spend(chunk, count);
  };
  stream.on('data', (chunk: Buffer) => {
    const messages = onChunk(chunk);
    if (typeof messages === 'number') return spend(chunk, messages);
    stream.pause();
    void spendLater(chunk, messages);
  });
}
