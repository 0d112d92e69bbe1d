/** How the program ends; scripts rely on it (docs/cli.md). */
export const exits = {
  ok: 0,
  failed: 1,
  usage: 2,
  signedOut: 3,
  notFound: 4,
  conflict: 5,
  interrupted: 130,
} as const;

export type Exit = (typeof exits)[keyof typeof exits];

/** The error as a program reads it, with `--json`. */
export interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly details?: unknown;
  readonly hint?: string | null;
  readonly request_id?: string | null;
}

/** A failure that the person at the terminal can understand. Anything else that is thrown is a fault of the program. */
export class Failure extends Error {
  override readonly name = 'Failure';
  readonly exit: Exit;
  readonly body: ErrorBody;

  constructor(exit: Exit, code: string, message: string, rest: Omit<ErrorBody, 'code' | 'message'> = {}) {
    super(message);
    this.exit = exit;
    this.body = { ...rest, code, message };
  }
}

export const usage = (message: string, hint?: string): Failure =>
  new Failure(exits.usage, 'usage', message, hint === undefined ? {} : { hint });

export const notFound = (message: string, hint?: string): Failure =>
  new Failure(exits.notFound, 'not_found', message, hint === undefined ? {} : { hint });

export const failed = (code: string, message: string, hint?: string): Failure =>
  new Failure(exits.failed, code, message, hint === undefined ? {} : { hint });

export const interrupted = (): Failure => new Failure(exits.interrupted, 'interrupted', 'Interrupted.');

/** The code of an error of the system, such as ENOENT. */
export const systemCode = (error: unknown): string | undefined => {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined;
  return typeof code === 'string' ? code : undefined;
};
