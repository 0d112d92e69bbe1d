import { isUtf8 } from 'node:buffer';
import { parentPort } from 'node:worker_threads';
import { helperThreadNice, setThreadNice } from './cpu-priority.ts';
import { type JsonScan, type ScanLimits, scanJson } from './json-scan.ts';

/** A function of a module that reduces JSON to something small, in the thread. */
export interface ReaderName {
  /** URL of the module. */
  readonly module: string;
  readonly name: string;
}

/** The result of a reader. */
export interface ReaderResult {
  /** Must be small, or typed arrays: the event loop builds it again. */
  readonly value: unknown;
  /** Buffers within `value` that are handed over instead of copied. */
  readonly transfer?: readonly ArrayBuffer[];
}

export type Reader = (text: string, args: unknown) => ReaderResult;

/** Makes something small of bytes that were not checked before; it bounds what it builds by itself. */
export type BytesReader = (bytes: Buffer, args: unknown) => ReaderResult;

interface CheckedTask {
  readonly bytes: Uint8Array;
  readonly limits: ScanLimits;
  /** Null: the text is only checked. */
  readonly reader: ReaderName | null;
  readonly args: unknown;
}

interface UncheckedTask {
  readonly bytes: Uint8Array;
  readonly limits: null;
  readonly reader: ReaderName;
  readonly args: unknown;
}

export type ThreadTask = CheckedTask | UncheckedTask;

export interface ThreadAnswer {
  /** Null: the bytes were not checked. */
  readonly scan: JsonScan | null;
  readonly value: unknown;
}

type ThreadResult = ReaderResult & Pick<ThreadAnswer, 'scan'>;

const readerOf = async <R extends Reader | BytesReader>({ module, name }: ReaderName): Promise<R> =>
  ((await import(module)) as Record<string, R>)[name] as R;

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

const answerTo = async ({ bytes, limits, reader, args }: ThreadTask): Promise<ThreadResult> => {
  if (limits === null) {
    const read = await readerOf<BytesReader>(reader);
    return { scan: null, ...read(bufferOf(bytes), args) };
  }
  const scan: JsonScan = isUtf8(bytes) ? scanJson(bytes, limits) : { verdict: 'invalid', at: 0 };
  if (scan.verdict !== 'valid' || reader === null) return { scan, value: undefined };
  const read = await readerOf<Reader>(reader);
  return { scan, ...read(bufferOf(bytes).toString(), args) };
};

// Its work is for one tenant, while the event loop beside it serves all of them.
setThreadNice(helperThreadNice);

parentPort?.on('message', (task: ThreadTask) => {
  void answerTo(task).then(({ scan, value, transfer = [] }) =>
    parentPort?.postMessage({ scan, value } satisfies ThreadAnswer, [...transfer]),
  );
});
