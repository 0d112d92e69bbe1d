import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { z } from 'zod';
import { baseNice, setNice } from '#lib/cpu-priority.ts';
import { ServiceError } from '#lib/errors.ts';
import { createCompileLine } from './compiler.ts';
import { requireHandler } from './handler-names.ts';

const run = promisify(execFile);

export interface Interpreter {
  readonly program: string;
  /** `3.11` */
  readonly version: string;
  /** The folder that the guest must see for it to run; null when all of it is below /usr. */
  readonly folder: string | null;
}

const usualPlaces = ['/usr/bin/python3', '/usr/local/bin/python3'];
const oldestMinor = 9;

/** The hint for users who want Python where there is none. */
export const howToInstall =
  `Functions in Python need Python 3.${oldestMinor} or newer on the machine of the worker: ` +
  'install it with `apt-get install python3`, or name it by PLINTH_PYTHON.';

const facts = z.object({ minor: z.number(), major: z.number(), program: z.string(), prefix: z.string() });
const question =
  'import json, os, sys; ' +
  'print(json.dumps({"major": sys.version_info[0], "minor": sys.version_info[1], ' +
  '"program": os.path.realpath(sys.executable), "prefix": sys.base_prefix}))';

/**
 * The Python interpreter of functions.
 * @param configured path of the program (`PLINTH_PYTHON`); undefined looks in the usual places
 * @returns null when there is none that is new enough
 */
export async function findPython(configured: string | undefined): Promise<Interpreter | null> {
  for (const place of configured === undefined ? usualPlaces : [configured]) {
    const found = await tryPython(place);
    if (found !== null) return found;
  }
  return null;
}

async function tryPython(path: string): Promise<Interpreter | null> {
  try {
    const { stdout } = await run(path, ['-I', '-S', '-c', question], { env: {}, timeout: 10_000 });
    const { major, minor, program, prefix } = facts.parse(JSON.parse(stdout));
    if (major !== 3 || minor < oldestMinor) return null;
    const isSystem = [program, prefix].every((place) => /^\/usr(?:\/|$)/.test(place));
    return { program, version: `${major}.${minor}`, folder: isSystem ? null : prefix };
  } catch {
    return null;
  }
}

/**
 * Checks the code of Python functions when they are deployed, so that a missing bracket is reported to its author and
 * not to the first caller. On a machine without Python the first run reports it.
 */
export interface PythonChecker {
  /**
   * @param projectId whose turn it takes
   * @param entryPoint name of the handler; left out: whether the code has it is not checked
   * @throws {ServiceError} `validation_failed`, with line and column or without a handler; `queue_full`; `overloaded`
   * when it had too little processor time to be done
   */
  readonly check: (source: string, projectId?: string, entryPoint?: string) => Promise<void>;
  /**
   * The same for several files: looks at the entry and the files beside its folder's packages.
   * @param files JSON text, `{path: text}`
   * @throws {ServiceError} as `check`
   */
  readonly checkFiles: (files: PythonFiles, projectId: string) => Promise<void>;
}

interface PythonFiles {
  readonly files: string;
  readonly entrypoint: string;
  /** Name of the handler. */
  readonly entryPoint: string;
}

/** Beyond the limit on processor time in the script, 8 s: then the machine is too busy. */
const maxMs = 60_000;

/**
 * Only compiled, never run; bounded because 1 MB of brackets can take gigabytes, or end the parser. The names that the
 * module defines are read from its instructions, which take less memory than its syntax tree and leave nothing out.
 * Code that can reach its own namespace by another way (`reaching`) may define others too.
 */
const script = `
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (768 << 20, 768 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (8, 8))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
source = sys.stdin.buffer.read()
found = module = None

def checked(text, path):
    global found
    try:
        return compile(text, 'function.py', 'exec', dont_inherit=True)
    except SyntaxError as error:
        found = {'path': path, 'line': error.lineno or 1, 'column': error.offset or 1, 'text': error.msg}
    except UnicodeEncodeError:
        found = {'path': path, 'line': 1, 'column': 1, 'text': 'half of a surrogate pair is no text'}
    except ValueError as error:
        found = {'path': path, 'line': 1, 'column': 1, 'text': str(error)}

names, entry = sys.argv[1:3]
if entry == '':
    module = checked(source.decode('utf-8', 'surrogatepass'), '')
else:
    files = json.loads(source)
    del source
    module = checked(files[entry], entry)
    # What is in folders may be packages of others, in which files for other versions of Python lie about.
    for path in files:
        if found is None and path.endswith('.py') and '/' not in path and path != entry:
            checked(files[path], path)

reaching = set('''globals locals vars exec eval setattr getattr delattr attrgetter methodcaller modules inspect
gc ctypes pickle shelve runpy pkgutil import_module importlib function f_globals f_locals global_enum _convert_
cProfile doctest pdb bdb mock __main__ __import__ __builtins__ __dict__ __globals__ __setattr__ __getattribute__
__reduce__ __reduce_ex__ __setstate__'''.split())

def codes(code):
    waiting = [code]
    while waiting:
        code = waiting.pop()
        waiting += [const for const in code.co_consts if isinstance(const, type(code))]
        yield code

def stored(code, operations):
    from opcode import EXTENDED_ARG
    argument = 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2]):
        argument = argument << 8 | low
        if operation == EXTENDED_ARG:
            continue
        if operation in operations:
            yield code.co_names[argument]
        argument = 0

def defined(module):
    from opcode import opmap
    names, complete = set(), True
    for code in codes(module):
        used = {part for name in code.co_names for part in name.split('.')}
        complete = complete and reaching.isdisjoint(used) and ('*',) not in code.co_consts
        operations = ['STORE_NAME', 'STORE_GLOBAL'] if code is module else ['STORE_GLOBAL']
        names.update(stored(code, {opmap[name] for name in operations}))
    return {'names': sorted(names), 'isComplete': complete}

found_names = {'names': [], 'isComplete': False}
try:
    if module is not None and names == 'names':
        found_names = defined(module)
except (MemoryError, RecursionError):
    pass
print(json.dumps({'fault': found, 'defined': found_names}))
`;

const answerSchema = z.object({
  fault: z.object({ path: z.string(), line: z.number(), column: z.number(), text: z.string() }).nullable(),
  defined: z.object({ names: z.array(z.string()), isComplete: z.boolean() }),
});

const invalid = (sentence: string, message: string, path = 'code'): ServiceError =>
  new ServiceError('validation_failed', sentence, { details: [{ path, message }] });

const tooMuch = (): ServiceError => {
  const message = 'takes too much time or memory to compile';
  return invalid(`The function's code ${message}.`, message);
};

/** @param configured `PLINTH_PYTHON` */
export const createPythonChecker = (configured: string | undefined, timeoutMs = maxMs): PythonChecker => {
  const inLine = createCompileLine();
  let interpreter: Promise<Interpreter | null> | undefined;
  const ask = async (question: Question, projectId: string | undefined): Promise<void> => {
    const python = await (interpreter ??= findPython(configured));
    if (python !== null) await inLine(projectId, () => checkWith(python, question, timeoutMs));
  };
  return {
    check: (source, projectId, entryPoint) => ask({ source, entryPoint, entrypoint: '' }, projectId),
    checkFiles: ({ files, ...entry }, projectId) => ask({ source: files, ...entry }, projectId),
  };
};

const tooBusy = (): ServiceError =>
  new ServiceError('overloaded', 'The machine is too busy to look at the function now. Nothing was deployed.', {
    hint: 'Try again shortly.',
    headers: { 'Retry-After': '10' },
  });

interface Question {
  /** For several files the JSON text of all. */
  readonly source: string;
  /** Path of the file with the handler; empty: there is one file. */
  readonly entrypoint: string;
  readonly entryPoint: string | undefined;
}

const checkWith = async ({ program }: Interpreter, question: Question, timeoutMs: number): Promise<void> => {
  const { output, isLate } = await outputOf(program, question, timeoutMs);
  if (isLate) throw tooBusy();
  const answer = answerSchema.safeParse(parsed(output));
  // Whatever ended the parser without a word: recursion, memory, time.
  if (!answer.success) throw tooMuch();
  const { fault, defined } = answer.data;
  if (fault !== null) {
    const message = `line ${fault.line}, column ${fault.column}: ${fault.text}`;
    throw invalid("The function's code does not parse.", message, fault.path === '' ? 'code' : `files.${fault.path}`);
  }
  if (question.entryPoint !== undefined) requireHandler(defined, question.entryPoint, 'defines');
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
  { source, entryPoint, entrypoint }: Question,
  timeoutMs: number,
): Promise<{ readonly output: string; readonly isLate: boolean }> => {
  const flags = [entryPoint === undefined ? '' : 'names', entrypoint];
  const child: ChildProcess = spawn(program, ['-I', '-S', '-B', '-W', 'ignore', '-c', script, ...flags], {
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
