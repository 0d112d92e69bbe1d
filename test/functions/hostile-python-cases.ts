import { type PythonCase, ends, handler, outOfMemory, outOfTime } from './hostile-python.ts';

export const endless: readonly PythonCase[] = [
  { name: 'a loop', code: handler('while True: pass'), statuses: outOfTime, fields: { timeout_ms: 400 } },
  {
    name: 'an async loop',
    code: 'import asyncio\nasync def handler(payload, sdk):\n    while True: await asyncio.sleep(0)',
    statuses: outOfTime,
    fields: { timeout_ms: 400 },
  },
  {
    name: 'a wait for what never comes',
    code: 'import asyncio\nasync def handler(payload, sdk):\n    await asyncio.Event().wait()',
    statuses: ['timeout'],
    fields: { timeout_ms: 400 },
  },
  {
    name: 'a regular expression that never ends',
    code: handler('import re', 're.match("(a+)+$", "a" * 40 + "b")'),
    statuses: outOfTime,
    fields: { timeout_ms: 400 },
  },
  {
    name: 'signals that are ignored',
    code: handler(
      'import signal',
      'for n in range(1, 32):',
      '    try: signal.signal(n, signal.SIG_IGN)',
      '    except (OSError, ValueError): pass',
      'while True: pass',
    ),
    statuses: outOfTime,
    fields: { timeout_ms: 400 },
  },
  {
    name: 'a child that goes on when the handler has returned',
    code: handler(
      'if os.fork() == 0:',
      '    os.setsid()',
      '    if os.fork() == 0:',
      '        os.execv("/usr/bin/sleep", ["sleep", "987654"])',
      '    os._exit(0)',
      'return 1',
    ),
    statuses: ['success'],
  },
  {
    name: 'a thread that goes on when the handler has returned',
    code: handler('import threading, time', 'threading.Thread(target=lambda: time.sleep(1000)).start()', 'return 1'),
    statuses: ['success', 'timeout'],
    fields: { timeout_ms: 1000 },
  },
];

export const greedy: readonly PythonCase[] = [
  {
    name: 'a bytearray bomb',
    code: handler('a = []', 'while True: a.append(bytearray(1 << 24))'),
    statuses: outOfMemory,
  },
  { name: 'a list bomb', code: handler('a = [0]', 'while True: a += a'), statuses: outOfMemory },
  { name: 'a string bomb', code: handler('a = "x"', 'while True: a += a'), statuses: outOfMemory },
  {
    name: 'a number bomb',
    code: handler('return len(str(10 ** (10 ** 9)))'),
    statuses: [...outOfMemory, ...outOfTime],
    fields: { timeout_ms: 1000 },
  },
  {
    name: 'a JSON bomb',
    code: handler('import json', 'return json.loads("[" * 1000000 + "]" * 1000000)'),
    statuses: outOfMemory,
  },
  {
    name: 'a recursion without end',
    code: handler('sys.setrecursionlimit(10 ** 9)', 'f = lambda: f()', 'f()'),
    statuses: [...outOfMemory, ...outOfTime],
  },
  {
    name: 'memory of children together',
    code: handler(
      // Each stays below the limit, all together below what may be passed before the next look at them.
      'for _ in range(6):',
      '    if os.fork() == 0:',
      '        a = bytearray(24 << 20)',
      '        for i in range(0, len(a), 4096): a[i] = 1',
      '        import time; time.sleep(100)',
      'import time',
      'time.sleep(100)',
    ),
    statuses: ['memory_limit', 'crashed'],
    fields: { memory_mb: 64, timeout_ms: 20_000 },
  },
  {
    name: 'a fork bomb',
    code: handler('while True: os.fork()'),
    statuses: [...ends, ...outOfTime, 'memory_limit'],
    fields: { timeout_ms: 2000 },
  },
  {
    name: 'a thread bomb',
    code: handler(
      'import threading, time',
      'while True: threading.Thread(target=time.sleep, args=(100,), daemon=True).start()',
    ),
    statuses: [...ends, 'memory_limit'],
  },
  {
    name: 'a flood of file descriptors',
    code: handler('a = []', 'while True: a.append(os.dup(0))'),
    statuses: ['error'],
  },
  {
    name: 'a full disk',
    code: handler('n = 0', 'while True:', '    open(f"/tmp/{n}", "wb").write(b"x" * (9 << 20))', '    n += 1'),
    statuses: outOfMemory,
  },
  {
    name: 'a file that is too large',
    code: handler(
      'with open("/tmp/big", "wb") as f:',
      '    for _ in range(11): f.write(b"x" * (1 << 20))',
      '    f.flush()',
    ),
    statuses: ['error', 'crashed'],
  },
  {
    name: 'a flood of files',
    code: handler('for n in range(200000): open(f"/tmp/{n}", "w").close()'),
    statuses: [...ends, ...outOfTime, 'memory_limit'],
    fields: { timeout_ms: 4000 },
  },
  { name: 'a giant result', code: handler('return "x" * (2 << 20)'), statuses: ['result_too_large'] },
  { name: 'a giant log', code: handler('for _ in range(10000): print("x" * 1000)', 'return 1'), statuses: ['success'] },
  { name: 'one giant line', code: handler('print("x" * (4 << 20))', 'return 1'), statuses: ['success'] },
];
