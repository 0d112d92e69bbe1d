import type { LogsMessage } from './messages.ts';
import { maxLogBytes, type LogLine } from './runtime.ts';

/** Empty lines count too: this is about what the time and the level of a line take. */
const lineBytes = 32;

/** The log of one run, within its limit. */
export class RunLog {
  readonly #lines: LogLine[] = [];
  readonly #onLine: ((line: LogLine) => void) | undefined;
  #bytes = 0;
  truncated = false;

  constructor(onLine?: (line: LogLine) => void) {
    this.#onLine = onLine;
  }

  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  add({ lines, truncated }: LogsMessage): void {
    this.truncated ||= truncated;
    for (const [time, level, message] of lines) {
      this.#bytes += Buffer.byteLength(message) + lineBytes;
      if (this.#bytes > maxLogBytes) {
        this.truncated = true;
        return;
      }
      const line = { ts: isoTime(time), level, message };
      this.#lines.push(line);
      this.#onLine?.(line);
    }
  }
}

const mostOffMs = 60 * 60_000;

/** The guest's clock reading, or ours where that is no time of this run. */
function isoTime(time: number): string {
  const now = Date.now();
  return new Date(Math.abs(time - now) < mostOffMs ? time : now).toISOString();
}
