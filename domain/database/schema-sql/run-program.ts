import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';

export interface Run {
  readonly program: string;
  readonly args: readonly string[];
  /** All of the program's environment: nothing of ours comes to it. */
  readonly env: Readonly<Record<string, string>>;
  /** Ends it. */
  readonly signal: AbortSignal;
  readonly maxBytes: number;
}

/** It wrote more than is taken, and was ended. */
export class OutputTooLarge extends Error {
  override readonly name = 'OutputTooLarge';
}

/** It could not be started, or failed. */
export class RunFailed extends Error {
  override readonly name = 'RunFailed';
}

const graceMs = 2000;

/** First so that it can cancel what it has the server do. */
const end = (child: ChildProcess): void => {
  child.kill('SIGTERM');
  const patience = setTimeout(() => child.kill('SIGKILL'), graceMs);
  child.once('close', () => clearTimeout(patience));
};

/** @returns what came; it is longer than `maxBytes` when that was exceeded, and then the program is ended */
const collect = (child: ChildProcess, stream: Readable | null, maxBytes: number): { readonly bytes: () => Buffer } => {
  const chunks: Buffer[] = [];
  let length = 0;
  stream?.on('data', (chunk: Buffer) => {
    if (length > maxBytes) return;
    length += chunk.length;
    chunks.push(chunk);
    if (length > maxBytes) end(child);
  });
  return { bytes: () => Buffer.concat(chunks) };
};

/** The length of its error text; the rest is read and dropped. */
const firstWords = (stream: Readable | null): (() => string) => {
  let text = '';
  stream?.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(0, 2000);
  });
  return () => text;
};

/**
 * Runs a program to its end.
 * @returns what it wrote
 * @throws {OutputTooLarge}
 * @throws {RunFailed} when it fails
 * @throws the reason of the signal
 */
export const runProgram = async ({ program, args, env, signal, maxBytes }: Run): Promise<Buffer> => {
  signal.throwIfAborted();
  const child = spawn(program, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'], cwd: '/' });
  const stop = (): void => end(child);
  signal.addEventListener('abort', stop, { once: true });
  try {
    const output = collect(child, child.stdout, maxBytes);
    const errorText = firstWords(child.stderr);
    const { promise, resolve, reject } = Promise.withResolvers<number | null>();
    child.once('error', (error) => reject(new RunFailed(`${program} could not be run`, { cause: error })));
    child.once('close', resolve);
    const code = await promise;
    signal.throwIfAborted();
    const bytes = output.bytes();
    if (bytes.length > maxBytes) throw new OutputTooLarge(`${program} wrote more than ${maxBytes} bytes`);
    if (code !== 0) throw new RunFailed(`${program} ended with code ${code}: ${errorText()}`);
    return bytes;
  } finally {
    signal.removeEventListener('abort', stop);
  }
};
