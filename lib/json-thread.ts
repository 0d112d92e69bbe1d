import { isUtf8 } from 'node:buffer';
import { parentPort } from 'node:worker_threads';
import { helperThreadNice, setThreadNice } from './cpu-priority.ts';
import { type JsonScan, type ScanLimits, scanJson } from './json-scan.ts';

/** A function of a module that turns JSON into something small, in the thread. */
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

export interface ThreadTask {
  readonly bytes: Uint8Array;
  readonly limits: ScanLimits;
  /** Null: the text is only checked. */
  readonly reader: ReaderName | null;
  readonly args: unknown;
}

export interface ThreadAnswer {
  readonly scan: JsonScan;
  readonly value: unknown;
}

const readerOf = async ({ module, name }: ReaderName): Promise<Reader> =>
  ((await import(module)) as Record<string, Reader>)[name] as Reader;

const answerTo = async ({ bytes, limits, reader, args }: ThreadTask): Promise<ReaderResult & { scan: JsonScan }> => {
  const scan: JsonScan = isUtf8(bytes) ? scanJson(bytes, limits) : { verdict: 'invalid', at: 0 };
  if (scan.verdict !== 'valid' || reader === null) return { scan, value: undefined };
  const read = await readerOf(reader);
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  return { scan, ...read(text, args) };
};

// What it does is for one tenant, and the event loop beside it is everybody's.
setThreadNice(helperThreadNice);

parentPort?.on('message', (task: ThreadTask) => {
  void answerTo(task).then(({ scan, value, transfer = [] }) =>
    parentPort?.postMessage({ scan, value } satisfies ThreadAnswer, [...transfer]),
  );
});
