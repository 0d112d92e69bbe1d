import { createIsoTimes } from '#lib/iso-times.ts';
import { redact } from '#lib/log.ts';
import type { LogsMessage } from './messages.ts';
import { type LogFields, type LogLine, maxLogBytes } from './runtime.ts';

/** Empty lines count too: this is about what the time and the level of a line take. */
const lineBytes = 32;
const linesPerStep = 256;
const maxOffMs = 60 * 60_000;

/** A guest keeps to it; what broke out of one need not. */
const maxFieldsLength = 8 * 1024;

/** Fields whose names are those of secrets lose their values, as they do in the logs of the platform. */
const fieldsOf = (text: string | undefined): { readonly fields?: LogFields } => {
  if (text === undefined || text.length > maxFieldsLength) return {};
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? { fields: redact(value as Record<string, unknown>) } : {};
  } catch {
    return {};
  }
};

/** The log of one run, within its limit. */
export class RunLog {
  readonly #lines: LogLine[] = [];
  readonly #onLine: ((line: LogLine) => void) | undefined;
  readonly #textOf = createIsoTimes();
  #bytes = 0;
  truncated = false;

  constructor(onLine?: (line: LogLine) => void) {
    this.#onLine = onLine;
  }

  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  /** Yields now and then: between two steps other work may be done. */
  *add({ lines, truncated }: LogsMessage): Generator<0> {
    this.truncated ||= truncated;
    for (const [place, [time, level, message, fields]] of lines.entries()) {
      if (place % linesPerStep === linesPerStep - 1) yield 0;
      this.#bytes += Buffer.byteLength(message) + Buffer.byteLength(fields ?? '') + lineBytes;
      if (this.#bytes > maxLogBytes) {
        this.truncated = true;
        return;
      }
      const line = { ts: this.#isoTime(time), level, message, ...fieldsOf(fields) };
      this.#lines.push(line);
      this.#onLine?.(line);
    }
  }

  /** The guest's clock reading, or ours where that is no time of this run. */
  #isoTime(time: number): string {
    const now = Date.now();
    return this.#textOf(Math.abs(time - now) < maxOffMs ? time : now);
  }
}
