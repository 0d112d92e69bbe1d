import { ApiError, open } from './api.ts';

export type Format = 'csv' | 'json';

export const mediaTypes: Readonly<Record<Format, string>> = { csv: 'text/csv', json: 'application/json' };

/** Bytes after which what was read is handed to the browser, which keeps large files on its disk. */
const portion = 4 * 1024 * 1024;
const [quote, lineFeed] = [34, 10];

/** Counts the lines of a file as its bytes come. A line feed within a cell of CSV is none. */
const createLineCount = (format: Format): ((bytes: Uint8Array) => number) => {
  let lines = 0;
  let isQuoted = false;
  return (bytes) => {
    for (const byte of bytes) {
      if (byte === quote && format === 'csv') isQuoted = !isQuoted;
      else if (byte === lineFeed && !isQuoted) lines += 1;
    }
    return lines;
  };
};

/** The progress of an export. */
export interface Progress {
  readonly rows: number;
  readonly bytes: number;
}

const broken = (): ApiError =>
  new ApiError(0, {
    code: 'incomplete',
    message: 'The export ended before all rows had come. Nothing was saved.',
    hint: 'The network was interrupted, or the export took too long: try again, or export fewer rows with a filter.',
  });

interface TableFile {
  /** With its query. */
  readonly at: string;
  readonly format: Format;
  /** As whom the rows are seen. */
  readonly as: string;
}

/**
 * Reads the file of a table as it comes.
 * @returns the whole of it, in parts
 * @throws {ApiError} also when it ends too early: a part is never taken for the whole
 */
export const readTableFile = async (
  { at, format, as }: TableFile,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<readonly Blob[]> => {
  const { body } = await open(at, { signal, headers: { accept: mediaTypes[format], 'x-plinth-as': as } });
  if (body === null) throw broken();
  const count = createLineCount(format);
  const [reader, parts]: [ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>, Blob[]] = [body.getReader(), []];
  let [held, heldBytes, bytes]: [Uint8Array<ArrayBuffer>[], number, number] = [[], 0, 0];
  const keep = (): void => {
    parts.push(new Blob(held));
    [held, heldBytes] = [[], 0];
  };
  for (;;) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw signal.aborted ? error : broken();
    });
    if (done) break;
    held.push(value);
    heldBytes += value.length;
    bytes += value.length;
    if (heldBytes >= portion) keep();
    onProgress({ rows: count(value), bytes });
  }
  keep();
  return parts;
};
