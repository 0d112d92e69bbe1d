import { longTestMs } from '#test/support/time-outs.ts';
import { request, resultOf, run } from './harness.ts';
import {
  hostileHandler as handler,
  openPython,
  peakDuring,
  survives,
  pythonTest as test,
  usePython,
} from './python-harness.ts';

const runtime = usePython();

const endless: Record<string, string[]> = {
  'a loop': ['print("before")', 'while True: pass'],
  'a sleep': ['print("before")', 'time.sleep(1000)'],
  'a regular expression that explodes': ['print("before")', 'import re; re.match("^(a+)+$", "a" * 50 + "b")'],
  'a loop that catches everything': [
    'print("before")',
    'while True:',
    '  try:',
    '    while True: pass',
    '  except BaseException: pass',
  ],
  'a call that is never answered': ['print("before")', 'sdk.db.query("never")'],
  'a coroutine that never ends': ['print("before")', 'import asyncio', 'asyncio.run(asyncio.Event().wait())'],
  'a __json__ that never returns': [
    'class D(dict):',
    '  def items(self):',
    '    print("before")',
    '    while True: pass',
    'return D(a=1)',
  ],
};
for (const [what, body] of Object.entries(endless)) {
  test(`${what} is stopped at timeout_ms and keeps its log`, async (t) => {
    const services = { call: () => new Promise<string>(() => undefined), close: () => Promise.resolve() };
    const outcome = await run(runtime(), handler(...body), { timeoutMs: 400 }, { services });
    t.is(outcome.status, 'timeout', JSON.stringify(outcome));
    t.deepEqual(
      outcome.logs.map(({ message }) => message),
      ['before'],
    );
    await survives(t, runtime());
  });
}

const bombs: Record<string, string[]> = {
  'a bytearray': ['return len(bytearray(1 << 30))'],
  'a list that grows': ['a = []', 'while True: a.append(bytearray(1 << 16))'],
  'small objects': ['a = []', 'while True: a.append([a])'],
  'a text that doubles': ['s = "x"', 'while True: s += s'],
  'a number': ['return 1 << (1 << 33)'],
  'a dict': ['d = {}', 'i = 0', 'while True:', '  d[i] = str(i); i += 1'],
  'a mapping': [
    'import mmap',
    'all = []',
    'while True:',
    '  m = mmap.mmap(-1, 1 << 22); m.write(b"x" * (1 << 22)); all.append(m)',
  ],
  'memory by the C library': [
    'c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p',
    'while True:',
    '  p = c.malloc(1 << 22)',
    '  if not p: raise MemoryError',
    '  ctypes.memset(p, 1, 1 << 22)',
  ],
  'children that each take their share': [
    'for _ in range(20):',
    '  if os.fork() == 0:',
    '    a = bytearray(b"x") * (40 << 20); time.sleep(100)',
    'time.sleep(100)',
  ],
  'a file for every byte': ['os.mkdir("d")', 'i = 0', 'while True:', '  open("d/%d" % i, "w").close(); i += 1'],
};
bombs['children whose main thread has ended'] = [
  'def hold():',
  '  time.sleep(0.3)',
  '  a = bytearray(b"x") * (40 << 20); time.sleep(1000)',
  'for _ in range(15):',
  '  if os.fork() == 0:',
  '    threading.Thread(target=hold, daemon=True).start()',
  '    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)',
  'time.sleep(1000)',
];
bombs['tables for thousands of mappings'] = [
  'c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p',
  'c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]',
  // A page in each GiB needs two pages of tables.
  'for i in range(12000):',
  '  ctypes.memset(c.mmap(0x100000000000 + (i << 30), 4096, 3, 0x100022, -1, 0), 1, 1)',
  'time.sleep(1000)',
];
const fillSockets = [
  'keep = []',
  'def fill(n):',
  '  for _ in range(n):',
  '    keep.extend(socket.socketpair())',
  '    for s in keep[-2:]:',
  '      s.setblocking(False)',
  '      try:',
  '        while True: s.send(b"x" * 32768)',
  '      except BlockingIOError: pass',
];
bombs['sockets that nobody reads'] = [
  ...fillSockets,
  'for _ in range(20):',
  '  if os.fork() == 0: fill(25); time.sleep(1000)',
  'time.sleep(1000)',
];
for (const [what, body] of Object.entries(bombs)) {
  test(`a bomb of ${what} is stopped before it harms the host`, async (t) => {
    t.timeout(longTestMs);
    const bomb = request(handler(...body), { memoryMib: 64, timeoutMs: 30_000 });
    const { outcome, peakMib } = await peakDuring(() => runtime().run(bomb));
    t.is(outcome.status, 'memory_limit', JSON.stringify(outcome));
    t.true(peakMib < 64 + 150, `${peakMib} MiB`);
    await survives(t, runtime());
  });
}

test('a function may use the memory that it was given, and catch the error when it wants more', async (t) => {
  t.is(await resultOf(t, runtime(), handler('return len(bytes(180 << 20))'), { memoryMib: 256 }), 180 << 20);
  const careful = handler('try: bytearray(1 << 30)', 'except MemoryError: return "caught"');
  t.is(await resultOf(t, runtime(), careful, { memoryMib: 64 }), 'caught');
  t.is(await resultOf(t, runtime(), handler('return len(bytearray(900 << 20))'), { memoryMib: 1024 }), 900 << 20);
});

test('processes that share their memory count it once', async (t) => {
  const code = handler(
    'a = bytearray(40 << 20)',
    'for i in range(0, len(a), 4096): a[i] = 1',
    'pids = []',
    'for _ in range(10):',
    '  pid = os.fork()',
    '  if pid == 0: time.sleep(0.3); os._exit(0)',
    '  pids.append(pid)',
    'return [os.waitpid(pid, 0)[1] for pid in pids]',
  );
  // On a machine that is too busy to read them in time they count in full: then it is tried again.
  let outcome = await run(runtime(), code, { memoryMib: 64 });
  for (let tries = 1; tries < 8 && outcome.status === 'memory_limit'; tries += 1)
    outcome = await run(runtime(), code, { memoryMib: 64 });
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  t.deepEqual(
    JSON.parse(outcome.result ?? ''),
    Array.from({ length: 10 }, () => 0),
  );
});

test('as many sockets as one process may have are no bomb', async (t) => {
  const code = handler(...fillSockets, 'fill(25)', 'time.sleep(0.3)', 'return len(keep)');
  t.is(await resultOf(t, runtime(), code, { memoryMib: 64 }), 50);
});

test('the worker goes on working while processes of many mappings are measured', async (t) => {
  const code = handler(
    'c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p',
    'c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]',
    'c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]',
    'p = c.mmap(None, 60000 * 4096, 3, 0x4022, -1, 0)',
    'for i in range(0, 60000, 2): c.mprotect(p + i * 4096, 4096, 1)',
    'for _ in range(40):',
    '  if os.fork() == 0: time.sleep(1000)',
    'time.sleep(1000)',
  );
  const before = performance.eventLoopUtilization();
  const outcome = await run(runtime(), code, { memoryMib: 256, timeoutMs: 8000 });
  const { utilization } = performance.eventLoopUtilization(before);
  t.true(['memory_limit', 'timeout'].includes(outcome.status), outcome.status);
  t.true(utilization < 0.7, String(utilization));
  await survives(t, runtime());
});

test('thirty threads fit into the least memory', async (t) => {
  const code = handler(
    'event = threading.Event()',
    'threads = [threading.Thread(target=event.wait) for _ in range(30)]',
    'for thread in threads: thread.start()',
    'event.set()',
    'for thread in threads: thread.join()',
    'return len(threads)',
  );
  t.is(await resultOf(t, runtime(), code, { memoryMib: 64 }), 30);
});

test('a function sees itself, the zygote and the first process, and no other', async (t) => {
  const code = handler(
    'return [os.getuid(), os.getpid() == os.getpgid(0), len(list(filter(str.isdigit, os.listdir("/proc"))))]',
  );
  t.deepEqual(await resultOf(t, runtime(), code), [1000, true, 3]);
});

test('the limits of a run are those that were asked for', async (t) => {
  const names = ['CPU', 'FSIZE', 'NPROC', 'NOFILE', 'CORE'];
  const code = handler(
    `return [resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in ${JSON.stringify(names)}]`,
  );
  t.deepEqual(await resultOf(t, runtime(), code, { timeoutMs: 7000 }), [9, 10 << 20, 50, 64, 0]);
});

test('a result on standard output is a log line', async (t) => {
  const outcome = await run(runtime(), handler('print(json.dumps({"status": "success", "result": 2}))', 'return 1'));
  t.is(outcome.result, '1');
  t.is(outcome.logs[0]?.message, '{"status": "success", "result": 2}');
});

test('a log is cut at its limit and says so, whoever writes it', async (t) => {
  for (const body of ['for i in range(9000): print("x" * 100)', 'os.system("yes x | head -c 2000000")']) {
    const outcome = await run(runtime(), handler(body));
    t.is(outcome.status, 'success');
    t.true(outcome.logsTruncated);
    const bytes = outcome.logs.reduce((sum, { message }) => sum + message.length, 0);
    t.true(bytes > 5000 && bytes < 256 * 1024, String(bytes));
  }
});

test('CPU time is limited apart from wall-clock time', async (t) => {
  const impatient = await openPython({ cpuGraceMs: -9700 });
  const outcome = await run(impatient, handler('print("before")', 'while True: pass'), { timeoutMs: 10_000 });
  await impatient.close();
  t.is(outcome.status, 'cpu_limit', JSON.stringify(outcome));
  t.true(outcome.cpuMs > 200 && outcome.durationMs < 9000, JSON.stringify(outcome));
  t.is(outcome.logs.length, 1);
});
