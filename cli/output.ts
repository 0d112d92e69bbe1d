import type { WriteStream } from 'node:tty';
import type { ErrorBody } from './errors.ts';
import { bytesText, clean, cleanLine, jsonText, secondsText } from './text.ts';

type Cell = string | number | boolean | null | undefined;

/** Where the program writes: data to standard output, words to standard error. */
export interface Output {
  /** Whether a program reads the answer. */
  readonly isJson: boolean;
  /** A sentence for the person. Nothing with `--json`. */
  readonly say: (line: string) => void;
  /** A sentence that matters with `--json`, too. */
  readonly warn: (line: string) => void;
  /** The answer: the value with `--json`, else the text. */
  readonly data: (value: unknown, text: string) => void;
  /** The answer as a table. */
  readonly table: (rows: readonly Readonly<Record<string, Cell>>[], value: unknown, empty: string) => void;
  /** One line of an answer that goes on: `--json` writes one value a line. */
  readonly line: (value: unknown, text: string) => void;
  /** Bytes of an answer, as they are. */
  readonly raw: (bytes: Uint8Array) => Promise<void>;
  readonly error: (body: ErrorBody) => void;
  readonly progress: (label: string, total: number | null) => Progress;
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  readonly red: (text: string) => string;
}

export interface Progress {
  readonly add: (bytes: number) => void;
  readonly end: () => void;
}

interface Streams {
  readonly stdout: NodeJS.WritableStream & Partial<WriteStream>;
  readonly stderr: NodeJS.WritableStream & Partial<WriteStream>;
}

export interface OutputOptions extends Streams {
  readonly isJson: boolean;
  readonly isColored: boolean;
}

const usualWidth = 80;
const gap = '  ';

const shown = (cell: Cell): string => (cell === null || cell === undefined ? '-' : cleanLine(String(cell)));

const widthOf = (texts: readonly string[]): number => Math.max(0, ...texts.map(({ length }) => length));

/** Columns beside each other; where the terminal is too narrow for that, one value a line. */
export const tableText = (
  rows: readonly Readonly<Record<string, Cell>>[],
  width: number,
  head: (text: string) => string = (text) => text,
): string => {
  const names = Object.keys(rows[0] ?? {});
  const columns = names.map((name) => [name.toUpperCase(), ...rows.map((row) => shown(row[name]))]);
  const widths = columns.map(widthOf);
  const total = widths.reduce((sum, one) => sum + one + gap.length, -gap.length);
  if (total > width) {
    const widest = widthOf(names);
    const block = (row: Readonly<Record<string, Cell>>): string =>
      names.map((name) => `${head(name.padEnd(widest))}${gap}${shown(row[name])}`).join('\n');
    return rows.map(block).join('\n\n');
  }
  const line = (index: number): string =>
    columns
      .map((column, i) => (column[index] ?? '').padEnd(widths[i] ?? 0))
      .join(gap)
      .trimEnd();
  return [head(line(0)), ...rows.map((_row, index) => line(index + 1))].join('\n');
};

const everyMs = 100;

const quiet: Progress = { add: () => undefined, end: () => undefined };

/** Rate and time left, on one line that is written again and again. */
const createProgress = (stderr: Streams['stderr'], label: string, total: number | null): Progress => {
  const began = performance.now();
  let [done, drawn] = [0, 0];
  const draw = (): void => {
    const seconds = (performance.now() - began) / 1000;
    const rate = done / Math.max(seconds, 0.001);
    const width = stderr.columns ?? usualWidth;
    const percent = total === null || total === 0 ? '' : `${String(Math.floor((done / total) * 100)).padStart(3)} %  `;
    const left = total === null || rate === 0 ? '' : `  ${secondsText((total - done) / rate)} left`;
    const parts = [`${percent}${bytesText(done)}  ${bytesText(rate)}/s${left}`, `${percent}${bytesText(rate)}/s`];
    const figures = parts.find((part) => part.length + 2 < width) ?? '';
    const name = cleanLine(label).slice(0, Math.max(0, width - figures.length - 3));
    stderr.write(`\r\u001B[K${name}  ${figures}`);
    drawn = performance.now();
  };
  return {
    add: (bytes) => {
      done += bytes;
      if (performance.now() - drawn > everyMs) draw();
    },
    end: () => void stderr.write('\r\u001B[K'),
  };
};

const styled =
  (isColored: boolean, from: number, to: number) =>
  (text: string): string =>
    isColored ? `\u001B[${from}m${text}\u001B[${to}m` : text;

/** Everything that somebody else wrote passes `clean` on its way to a terminal; the caller does that for `text`. */
export const createOutput = ({ stdout, stderr, isJson, isColored }: OutputOptions): Output => {
  const words = (line: string): void => void stderr.write(`${line}\n`);
  const answer = (text: string): void => void stdout.write(text.endsWith('\n') || text === '' ? text : `${text}\n`);
  const [bold, dim, red] = [styled(isColored, 1, 22), styled(isColored, 2, 22), styled(isColored, 31, 39)];
  const data = (value: unknown, text: string): void => answer(isJson ? `${jsonText(value)}\n` : text);
  return {
    isJson,
    bold,
    dim,
    red,
    say: (line) => {
      if (!isJson) words(line);
    },
    warn: (line) => words(`${red('warning:')} ${line}`),
    data,
    table: (rows, value, empty) => {
      if (isJson) return data(value, '');
      if (rows.length === 0) return words(empty);
      // Another program gets one row a line, however long.
      const width = stdout.isTTY === true ? (stdout.columns ?? usualWidth) : Number.POSITIVE_INFINITY;
      answer(tableText(rows, width, stdout.isTTY === true ? dim : undefined));
    },
    line: (value, text) => answer(isJson ? jsonText(value) : text),
    raw: (bytes) =>
      new Promise((resolve, reject) => {
        stdout.write(bytes, (error) => (error ? reject(error) : resolve()));
      }),
    error: (body) => {
      if (isJson) return words(jsonText({ error: body }));
      words(`${red('plinth:')} ${clean(body.message)}`);
      if (body.hint) words(`  ${clean(body.hint)}`);
      if (body.request_id) words(dim(`  request ${cleanLine(body.request_id)}`));
    },
    progress: (label, total) => (isJson || stderr.isTTY !== true ? quiet : createProgress(stderr, label, total)),
  };
};
