import type { RunStatus, SandboxLevel } from '#queues/function-invoke.ts';

/** The interface that every language runtime offers to the processor that runs functions. */

export interface RunRequest {
  readonly projectId: string;
  readonly functionId: string;
  readonly version: number;
  /** Compiled code: for JavaScript one CommonJS text. With `entryFile`: the files as JSON text, `{path: text}`. */
  readonly code: string;
  /** Path of the file with the handler (Python). Left out: the code is one text. */
  readonly entryFile?: string | null | undefined;
  /** Name of the handler in the code. */
  readonly entryPoint: string;
  /** JSON text; the handler receives exactly what it says, NUL and lone surrogates included. */
  readonly payload: string;
  /** JSON text, `{kind, key_id, user}`: the value of `sdk.caller`; null for an unknown caller. */
  readonly caller?: string | null;
  /** JSON text: the HTTP request behind `sdk.request`; null for none. */
  readonly request?: string | null;
  readonly env: Readonly<Record<string, string>>;
  /**
   * Evaluates the module ahead of its runs and does not call the handler; the result is `{fault}`, why that cannot be done
   * or null (JavaScript). Left out: an ordinary run.
   */
  readonly isTrial?: boolean;
  /** `sdk.attempt`; left out: 1. */
  readonly attempt?: number;
  /** Wall clock, from the moment a runner takes the request. */
  readonly timeoutMs: number;
  readonly memoryMib: number;
}

type ResponseForm = 'text' | 'base64' | 'sent';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export type LogFields = Readonly<Record<string, unknown>>;

export interface LogLine {
  /** ISO 8601, UTC, milliseconds. */
  readonly ts: string;
  readonly level: LogLevel;
  readonly message: string;
  /** The object that `sdk.log` got, at most 8 KB of JSON. */
  readonly fields?: LogFields;
}

export interface RunError {
  readonly name: string;
  readonly message: string;
  /** With the line numbers of the function's own source; at most 16 KB. */
  readonly stack: string;
}

export interface RunOutcome {
  readonly status: RunStatus;
  /** JSON text, at most 1 MiB; null unless the status is `success`. */
  readonly result: string | null;
  readonly error: RunError | null;
  /**
   * How the body of the response is written that the result is, `{status, headers: [[name, value]], body}`; `sent`: it
   * went out by calls. Left out: the result is a value. Unchecked, as the result.
   */
  readonly response?: ResponseForm | undefined;
  /** At most 256 KiB, kept whatever the status is. */
  readonly logs: readonly LogLine[];
  readonly logsTruncated: boolean;
  readonly durationMs: number;
  readonly cpuMs: number;
  readonly memoryPeakMib: number;
  /** While a connection of the sandbox's own network was under way. Left out: it has none. */
  readonly networkMs?: number | undefined;
  /** User code may have started: a run that never started may be retried, one that did may not. */
  readonly started: boolean;
}

/**
 * A call of user code to the outside while it runs. It leaves the sandbox as a message and is answered by the worker,
 * which trusts none of it.
 */
export interface RunServices {
  /**
   * @param op the called operation, `db.query` for instance
   * @param op what is asked for, `db.query` for instance
   * @param args JSON text
   * @returns JSON text
   * @throws CallFault what user code is told; of anything else it hears nothing but that the call failed
   */
  readonly call: (op: string, args: string) => Promise<string>;
  /** The run is over: what is under way ends, what was lent is given back. */
  readonly close: () => Promise<void>;
}

/** Why a call of user code failed, in words for its author. The fields become properties of the error in user code. */
export class CallFault extends Error {
  readonly fields: Readonly<Record<string, string>>;

  constructor(name: string, message: string, fields: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = name;
    this.fields = fields;
  }
}

export interface RunOptions {
  /** Aborting kills the run: the outcome is `cancelled`. */
  readonly signal?: AbortSignal;
  /** Whether a caller waits for the result: the run gets a free runner before background runs of its project do. */
  readonly isAwaited?: boolean | undefined;
  /** Called with each line while the function runs; the same lines are in the outcome. */
  readonly onLog?: (line: LogLine) => void;
  /** Left out: whatever user code asks for is refused. The caller closes them. */
  readonly services?: RunServices;
}

export type { SandboxLevel };

export interface Runtime {
  /** How well the runners are fenced in on this machine. */
  readonly level: SandboxLevel;
  /** Runs a function once. Whatever user code does is in the outcome; a rejection is a fault of the platform. */
  run(request: RunRequest, options?: RunOptions): Promise<RunOutcome>;
  /** Kills every runner; resolves when none is left. Runs under way end as `cancelled`. */
  close(): Promise<void>;
}

export const maxResultBytes = 1024 * 1024;
export const maxLogBytes = 256 * 1024;
/** Calls of one run that wait for an answer, and what they carry together. */
export const maxOpenCalls = 64;
export const maxOpenCallBytes = 32 * 1024 * 1024;
export const maxErrorLength = 16 * 1024;
/** A function may use this much more CPU time than its wall-clock time-out. */
export const defaultCpuGraceMs = 2000;
