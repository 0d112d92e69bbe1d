import { type ChildProcess, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { baseNice, setNice } from '#lib/cpu-priority.ts';
import { ServiceError } from '#lib/errors.ts';
import { createCompileLine } from './compile-line.ts';
import { type Interpreter, findPython } from './python-interpreter.ts';

/**
 * Looks at the code of Python functions when they are deployed, so that a missing bracket is told to its author and not to
 * the first caller. On a machine without Python it is told by the first run.
 */
export interface PythonChecker {
  /**
   * @param projectId whose turn it takes
   * @throws {ServiceError} `validation_failed`, with line and column; `queue_full`; `overloaded` when it had too little processor
   * time to be done
   */
  readonly check: (source: string, projectId?: string) => Promise<void>;
}

/** Beyond the limit on processor time in the script, 8 s: then the machine is too busy. */
const longestMs = 60_000;

/** Only parsed, never run; bounded because 1 MB of brackets can take gigabytes, or end the parser. */
const script = `
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (768 << 20, 768 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (8, 8))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
source = sys.stdin.buffer.read()
found = None
try:
    compile(source.decode('utf-8', 'surrogatepass'), 'function.py', 'exec', dont_inherit=True)
except SyntaxError as error:
    found = {'line': error.lineno or 1, 'column': error.offset or 1, 'text': error.msg}
except UnicodeEncodeError:
    found = {'line': 1, 'column': 1, 'text': 'half of a surrogate pair is no text'}
except ValueError as error:
    found = {'line': 1, 'column': 1, 'text': str(error)}
print(json.dumps({'fault': found}))
`;

const answerSchema = z.object({
  fault: z.object({ line: z.number(), column: z.number(), text: z.string() }).nullable(),
});

const invalid = (sentence: string, message: string): ServiceError =>
  new ServiceError('validation_failed', sentence, { details: [{ path: 'code', message }] });

const tooMuch = (): ServiceError => {
  const message = 'takes too much time or memory to compile';
  return invalid(`The function's code ${message}.`, message);
};

/** @param configured `PLINTH_PYTHON` */
export const createPythonChecker = (configured: string | undefined, timeoutMs = longestMs): PythonChecker => {
  const inLine = createCompileLine();
  let interpreter: Promise<Interpreter | null> | undefined;
  return {
    check: async (source, projectId) => {
      const python = await (interpreter ??= findPython(configured));
      if (python !== null) await inLine(projectId, () => checkWith(python, source, timeoutMs));
    },
  };
};

const tooBusy = (): ServiceError =>
  new ServiceError('overloaded', 'The machine is too busy to look at the function now. Nothing was deployed.', {
    hint: 'Try again shortly.',
    headers: { 'Retry-After': '10' },
  });

const checkWith = async ({ program }: Interpreter, source: string, timeoutMs: number): Promise<void> => {
  const { output, isLate } = await outputOf(program, source, timeoutMs);
  if (isLate) throw tooBusy();
  const answer = answerSchema.safeParse(parsed(output));
  // Whatever ended the parser without a word: recursion, memory, time.
  if (!answer.success) throw tooMuch();
  const { fault } = answer.data;
  if (fault === null) return;
  const message = `line ${fault.line}, column ${fault.column}: ${fault.text}`;
  throw invalid("The function's code does not parse.", message);
};

const parsed = (output: string): unknown => {
  try {
    return JSON.parse(output);
  } catch {
    return null;
  }
};

/** The output is empty when the process could not be started or was ended. */
const outputOf = async (
  program: string,
  source: string,
  timeoutMs: number,
): Promise<{ readonly output: string; readonly isLate: boolean }> => {
  const child: ChildProcess = spawn(program, ['-I', '-S', '-B', '-W', 'ignore', '-c', script], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {},
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  });
  if (child.pid !== undefined) setNice(child.pid, baseNice);
  const failed = new Promise<string>((resolve) => child.once('error', () => resolve('')));
  child.stdin?.on('error', () => undefined).end(source);
  const output = await Promise.race([failed, child.stdout === null ? '' : text(child.stdout)]);
  // Only the time-out of `spawn` sets this.
  return { output, isLate: child.killed };
};
