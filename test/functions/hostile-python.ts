/** Python code that means harm, and the ways its run may end (contract, section 4). */
export interface PythonCase {
  readonly name: string;
  readonly code: string;
  readonly statuses: readonly string[];
  /** The settings of the function beside its code. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** The required answer. */
  readonly result?: unknown;
}

export const ends = ['success', 'error', 'crashed'] as const;
export const outOfTime = ['timeout', 'cpu_limit'] as const;
export const outOfMemory = ['memory_limit', 'error', 'crashed'] as const;

/** A handler out of lines; `libc` and the numbers of a few calls are at hand. */
export const handler = (...lines: string[]): string =>
  ['import os, sys', 'def handler(payload, sdk):', ...lines.map((line) => `    ${line}`)].join('\n');

export const withLibc = (...lines: string[]): string =>
  handler(
    'import ctypes',
    'libc = ctypes.CDLL(None, use_errno=True)',
    'def call(name, *args):',
    '    done = getattr(libc, name)(*args)',
    '    return "done" if done == 0 else ctypes.get_errno()',
    ...lines,
  );
