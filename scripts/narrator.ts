/** Says what is going on, one line at a time. */
export interface Narrator {
  readonly print: (line: string) => void;
  /** Runs `work`; when it takes long, says what is being waited for, and again every ten seconds. */
  readonly during: <T>(what: string, work: () => Promise<T>) => Promise<T>;
}

const firstLineMs = 400;
const laterLinesMs = 10_000;

/**
 * A narrator that writes to `stream`. A closed terminal or pipe is no reason to fail: the signal that comes with it
 * stops the process.
 */
export const narrateTo = (stream: NodeJS.WritableStream): Narrator => {
  stream.on('error', () => undefined);
  const print = (line: string): void => {
    stream.write(`plinth: ${line}\n`);
  };
  const during = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const began = Date.now();
    const seconds = (): number => Math.round((Date.now() - began) / 1000);
    const first = setTimeout(() => print(`${what} …`), firstLineMs);
    const later = setInterval(() => print(`still ${what} (${seconds()} s)`), laterLinesMs);
    try {
      return await work();
    } finally {
      clearTimeout(first);
      clearInterval(later);
    }
  };
  return { print, during };
};
