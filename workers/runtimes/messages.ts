import { z } from 'zod';
import { scanJson } from '#lib/json-scan.ts';
import type { LogLevel } from './runtime.ts';

/** The messages of a guest. They are checked on arrival: code that broke out of the engine writes these frames too. */

const anySize = { maxParts: Infinity, maxDepth: Infinity };

/** Builds nothing: a result may be hundreds of thousands of objects. */
const isJson = (text: string): boolean => scanJson(Buffer.from(text), anySize).verdict === 'valid';

const guestMessage = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ready') }),
  /** The guest has dropped a function's code to make room: send it again with the next run. */
  z.object({ type: z.literal('dropped'), function: z.string() }),
  /** The guest tries to evaluate the module of a function ahead of its runs, which may end the process; then `stored`. */
  z.object({ type: z.enum(['storing', 'stored']), function: z.string() }),
  /** User code asks for something outside: `args` is JSON text. */
  z.object({
    type: z.literal('call'),
    run: z.number(),
    call: z.number(),
    op: z.string().max(64),
    args: z.string(),
  }),
  z.object({
    type: z.literal('result'),
    run: z.number(),
    status: z.enum(['success', 'error', 'result_too_large', 'memory_limit', 'cpu_limit', 'crashed']),
    /** JSON text: it is passed on as it is, so what is none must not pass. */
    result: z.string().refine(isJson).nullable(),
    error: z.object({ name: z.string(), message: z.string(), stack: z.string() }).nullable(),
    /** The result is a response, and how its body is written. */
    response: z.enum(['text', 'base64', 'sent']).nullish(),
    cpuMs: z.number().nonnegative(),
    memoryMib: z.number().nonnegative(),
    /** The guest does not trust itself any more: something of the run may be left. */
    retire: z.boolean().optional(),
  }),
]);

export interface LogsMessage {
  readonly type: 'logs';
  readonly run: number;
  /** `[milliseconds since 1970, level, message]`, and the fields of the line as JSON text where it has some. */
  readonly lines: readonly (readonly [time: number, level: LogLevel, message: string, fields?: string])[];
  /** More was written than is kept. */
  readonly truncated: boolean;
}

export type GuestMessage = z.output<typeof guestMessage> | LogsMessage;
/** Changes of a function that the guest has loaded. */
export type FunctionMessage = Extract<GuestMessage, { function: string }>;
export type ResultMessage = Extract<GuestMessage, { type: 'result' }>;
export type CallMessage = Extract<GuestMessage, { type: 'call' }>;

const logLevels: ReadonlySet<unknown> = new Set<LogLevel>(['debug', 'info', 'warn', 'error']);

const isLine = (line: unknown): boolean =>
  Array.isArray(line) &&
  (line.length === 3 || (line.length === 4 && typeof line[3] === 'string')) &&
  typeof line[0] === 'number' &&
  logLevels.has(line[1]) &&
  typeof line[2] === 'string';

/** Checked by hand: zod makes each line anew, which was 2 of the 12 ms that a worker takes to receive 8,000 of them. */
const isLogsMessage = (message: unknown): message is LogsMessage => {
  const { type, run, lines, truncated } = (message ?? {}) as Partial<Record<keyof LogsMessage, unknown>>;
  return (
    type === 'logs' &&
    typeof run === 'number' &&
    typeof truncated === 'boolean' &&
    Array.isArray(lines) &&
    lines.every(isLine)
  );
};

/** Comes before the first run of a function, and again when the guest has dropped it. */
export interface CodeMessage {
  readonly type: 'code';
  readonly function: string;
  /** With `entryFile`: JSON text of the files, `{path: text}`. */
  readonly code: string;
  readonly entryFile: string | null;
}

export interface RunMessage {
  readonly type: 'run';
  readonly run: number;
  /** Names one version of one function: the guest keeps what it compiled under this name. */
  readonly function: string;
  readonly entryPoint: string;
  readonly payload: string;
  /** JSON text. */
  readonly caller?: string | null;
  /** JSON text. */
  readonly request?: string | null;
  readonly env: Readonly<Record<string, string>>;
  readonly projectId: string;
  readonly attempt?: number;
  readonly isTrial?: boolean;
  readonly memoryMib: number;
  /** CPU time that the run may use. */
  readonly cpuMs: number;
  /** The module may be evaluated ahead of the runs that follow. */
  readonly ahead: boolean;
}

/** The answer to a call: JSON text, or the fault as JSON text (`name`, `message`, further fields). */
export interface AnswerMessage {
  readonly type: 'answer';
  readonly run: number;
  readonly call: number;
  readonly ok: boolean;
  readonly value: string;
}

/** @throws when the message has not the shape that ours have */
export const parseGuestMessage = (message: unknown): GuestMessage =>
  isLogsMessage(message) ? message : guestMessage.parse(message);
