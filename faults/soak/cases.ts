/** The behaviour of code in one language, and the possible ends of its run. */
export interface SoakCase {
  readonly name: string;
  readonly code: string;
  readonly statuses: readonly string[];
}

export interface SoakCases {
  /** Answers what it is asked, doubled; beside it nothing hostile may be felt. */
  readonly honest: string;
  readonly hostile: readonly SoakCase[];
}

const outOfTime = ['timeout', 'cpu_limit'];
const outOfMemory = ['memory_limit', 'error', 'crashed', ...outOfTime];
const endsSomehow = ['success', 'error', 'crashed', ...outOfTime];

const inJavascript = (name: string, body: string, statuses: readonly string[]): SoakCase => ({
  name,
  code: `exports.handler = async (payload, sdk) => { ${body} }`,
  statuses,
});

const javascript: SoakCases = {
  honest: 'exports.handler = async (n) => { console.log("asked", n); await null; return n * 2 }',
  hostile: [
    inJavascript('loop', 'for (;;);', outOfTime),
    inJavascript('microtasks', 'for (;;) await null;', outOfTime),
    inJavascript('never', 'return new Promise(() => {})', outOfTime),
    inJavascript('expression', 'return /^(a+)+$/.test("a".repeat(40) + "b")', outOfTime),
    inJavascript('objects', 'const all = []; for (;;) all.push({ a: [Math.random()] })', outOfMemory),
    inJavascript('buffers', 'const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))', outOfMemory),
    inJavascript('strings', 'const all = []; for (let i = 0; ; i += 1) all.push(`${i}`.repeat(50000))', outOfMemory),
    inJavascript('promises', 'const all = []; for (;;) all.push(new Promise(() => {}))', outOfMemory),
    inJavascript('recursion', 'const f = () => f(); f()', ['error']),
    inJavascript('log', 'for (let i = 0; i < 3000; i += 1) console.log("y".repeat(10000))', [
      ...endsSomehow,
      'memory_limit',
    ]),
    inJavascript('calls', 'for (let i = 0; i < 5000; i += 1) sdk.db.query("x").catch(() => {}); return 1', endsSomehow),
    inJavascript('late', 'setInterval(() => console.log(1), 1); Promise.reject(new Error("x")); return 1', endsSomehow),
    inJavascript(
      'poison',
      'for (const k of ["then", "catch"]) Promise.prototype[k] = null; JSON.stringify = null; return 1',
      endsSomehow,
    ),
    inJavascript('giant', 'return "x".repeat(3e6)', ['result_too_large']),
    inJavascript('circular', 'const o = {}; o.o = o; return o', ['error']),
  ],
};

const inPython = (name: string, body: string, statuses: readonly string[]): SoakCase => ({
  name,
  code: `import os, signal, subprocess, sys, threading\ndef handler(payload, sdk):\n    ${body.split('\n').join('\n    ')}\n`,
  statuses,
});

const anyEnd = [...endsSomehow, 'memory_limit', 'result_too_large'];

const python: SoakCases = {
  honest: 'def handler(n, sdk):\n    print("asked", n)\n    return n * 2\n',
  hostile: [
    inPython('loop', 'while True: pass', outOfTime),
    inPython('sleep', 'import time\ntime.sleep(60)', outOfTime),
    inPython('bytes', 'a = []\nwhile True: a.append(bytearray(1 << 20))', outOfMemory),
    inPython('list', 'a = []\nwhile True: a.append([0] * 1000)', outOfMemory),
    inPython('recursion', 'def f(): return f()\nreturn f()', ['error', 'crashed']),
    inPython('forks', 'while True:\n    try: os.fork()\n    except OSError: pass', anyEnd),
    inPython('threads', 'while True: threading.Thread(target=lambda: __import__("time").sleep(60)).start()', anyEnd),
    inPython('daemon', 'subprocess.Popen(["sleep", "300"], start_new_session=True)\nreturn 1', anyEnd),
    inPython('exit', 'os._exit(0)', ['crashed', 'error']),
    inPython('kill', 'os.kill(-1, signal.SIGKILL)\nos.kill(os.getppid(), signal.SIGKILL)\nreturn 1', anyEnd),
    inPython('files', 'i = 0\nwhile True:\n    i += 1\n    open(f"/tmp/{i}", "wb").write(b"x" * 9_000_000)', anyEnd),
    inPython(
      'descriptors',
      'for fd in range(3, 64):\n    try: os.write(fd, b"\\xff" * 64)\n    except OSError: pass\nreturn 1',
      anyEnd,
    ),
    inPython('output', 'sys.stdout.write("y" * 5_000_000)\nreturn 1', anyEnd),
  ],
};

/** By the names of the languages that the benchmarks know too. */
export const soakCases: Readonly<Record<string, SoakCases>> = { JavaScript: javascript, Python: python };
