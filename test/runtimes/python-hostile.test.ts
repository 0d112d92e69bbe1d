import { longTestMs } from '#test/support/time-outs.ts';
import type { RunRequest } from '#workers/runtimes/runtime.ts';
import { resultOf, run } from './harness.ts';
import { hostileHandler as handler, peakDuring, survives, pythonTest as test, usePython } from './python-harness.ts';

const runtime = usePython();
/** Only code that runs for ever meets its time-out soon: all else ends by itself, however busy the machine is. */
const limitedFor = (statuses: readonly string[]): Partial<RunRequest> => ({
  timeoutMs: statuses.includes('timeout') ? 1500 : 30_000,
  memoryMib: 64,
});

const hostile: Record<string, { body: string[]; statuses: string[] }> = {
  'a stopped parent': { body: ['os.kill(os.getppid(), signal.SIGSTOP)', 'time.sleep(1000)'], statuses: ['timeout'] },
  'deep recursion': { body: ['f = lambda: f()', 'f()'], statuses: ['error'] },
  'deep recursion of the C stack': {
    body: ['sys.setrecursionlimit(10**9)', 'class A:', '  def __repr__(self): return repr(self)', 'repr(A())'],
    statuses: ['crashed', 'memory_limit', 'error'],
  },
  'a fork bomb': {
    body: ['while True:', '  try: os.fork()', '  except OSError: pass'],
    statuses: ['timeout', 'memory_limit', 'cpu_limit'],
  },
  'a fork bomb of programs': {
    body: ['subprocess.run(["sh", "-c", "f() { f | f & }; f; sleep 100"])'],
    statuses: ['timeout', 'success', 'cpu_limit', 'memory_limit'],
  },
  'a thread bomb': {
    body: ['while True: threading.Thread(target=time.sleep, args=(1000,)).start()'],
    statuses: ['error'],
  },
  'a flood of descriptors': { body: ['a = []', 'while True: a.append(open("/dev/null"))'], statuses: ['error'] },
  'a flood of sockets': { body: ['a = []', 'while True: a.append(socket.socketpair())'], statuses: ['error'] },
  'a file over 10 MB': {
    body: ['with open("big", "wb") as f:', '  for _ in range(12): f.write(b"x" * (1 << 20))'],
    statuses: ['error'],
  },
  'a full disk': {
    body: ['for i in range(20):', '  open("f%d" % i, "wb").write(b"x" * (9 << 20))'],
    statuses: ['error'],
  },
  'a deep folder': {
    body: ['for i in range(3000):', '  os.mkdir("d"); os.chdir("d")', 'return 1'],
    statuses: ['success'],
  },
  'a folder that nobody may enter': {
    body: ['os.makedirs("d/e"); os.chmod("d", 0)', 'return 1'],
    statuses: ['success'],
  },
  'a giant log': { body: ['while True: print("x" * 1000)'], statuses: ['timeout'] },
  'a giant log line': { body: ['print("x" * (30 << 20))', 'return 1'], statuses: ['success', 'memory_limit'] },
  'a giant log of another program': { body: ['subprocess.run(["yes"])'], statuses: ['timeout', 'cpu_limit'] },
  'a giant call': { body: ['sdk.db.query("x" * (20 << 20))'], statuses: ['error', 'memory_limit', 'crashed'] },
  'a message of the exception without end': { body: ['raise ValueError("x" * (10 << 20))'], statuses: ['error'] },
  'a daemonised child': {
    body: [
      'if os.fork() == 0:',
      '  os.setsid()',
      '  if os.fork() == 0:',
      '    os.closerange(0, 64)',
      '    time.sleep(1000)',
      '  os._exit(0)',
      'return 1',
    ],
    statuses: ['success'],
  },
  'a thread that goes on': {
    body: ['threading.Thread(target=lambda: [time.sleep(1) for _ in range(1000)]).start()', 'return 1'],
    statuses: ['success'],
  },
  'an exit handler that never ends': {
    body: ['import atexit; atexit.register(time.sleep, 1000)', 'return 1'],
    statuses: ['success'],
  },
  'killing its parent': { body: ['os.kill(os.getppid(), signal.SIGKILL)', 'time.sleep(1000)'], statuses: ['crashed'] },
  'kill -1': { body: ['os.kill(-1, signal.SIGKILL)', 'time.sleep(1000)'], statuses: ['crashed'] },
  'every signal to its parent': {
    body: ['for n in signal.valid_signals() - {9, 19}: os.kill(os.getppid(), n)', 'return 1'],
    statuses: ['success'],
  },
  'every signal to the first process': {
    body: ['for n in signal.valid_signals() - {19}:', '  try: os.kill(1, n)', '  except OSError: pass', 'return 1'],
    statuses: ['success', 'crashed'],
  },
  'os._exit': { body: ['os._exit(0)'], statuses: ['crashed'] },
  'os.abort': { body: ['os.abort()'], statuses: ['crashed'] },
  'a wild pointer': { body: ['ctypes.string_at(1)'], statuses: ['crashed'] },
  'garbage on every descriptor': {
    body: ['for fd in range(64):', '  try: os.write(fd, b"\\xff" * 5000)', '  except OSError: pass', 'return 1'],
    statuses: ['crashed'],
  },
  'closing every descriptor': { body: ['os.closerange(0, 64)', 'return 1'], statuses: ['crashed'] },
  'a forged end that is no JSON': {
    body: [
      'body = json.dumps(["success", "1,\\"x\\":", None]).encode()',
      'os.write(3, struct.pack(">cI", b"R", len(body)) + body)',
      'time.sleep(1000)',
    ],
    statuses: ['crashed'],
  },
  'a forged status': {
    body: [
      'body = json.dumps(["cancelled", None, None]).encode()',
      'os.write(3, struct.pack(">cI", b"R", len(body)) + body)',
      'time.sleep(1000)',
    ],
    statuses: ['crashed'],
  },
  'compiled code out of nowhere': {
    body: ['os.write(3, struct.pack(">cI", b"K", 3) + b"abc")', 'time.sleep(1000)'],
    statuses: ['crashed'],
  },
  'a frame that is too long': {
    body: ['os.write(3, struct.pack(">cI", b"L", 1 << 31))', 'time.sleep(1000)'],
    statuses: ['crashed'],
  },
  'JSON that nests without end': {
    body: [
      'body = b"[" * 200000',
      'os.write(3, struct.pack(">cI", b"R", len(body)))',
      'i = 0',
      'while i < len(body): i += os.write(3, body[i:])',
      'time.sleep(1000)',
    ],
    statuses: ['crashed'],
  },
  'a log line of no level': {
    body: ['os.write(3, struct.pack(">cIBd", b"L", 9, 77, 1.0))', 'time.sleep(1000)'],
    statuses: ['crashed'],
  },
  'a log line at no time': {
    body: ['os.write(3, struct.pack(">cIBd", b"L", 9, 1, float("nan")))', 'return 1'],
    statuses: ['success', 'crashed'],
  },
  'limits of its parent': {
    body: [
      'class L(ctypes.Structure): _fields_ = [("a", ctypes.c_ulong), ("b", ctypes.c_ulong)]',
      'return ctypes.CDLL(None).prlimit(os.getppid(), 7, ctypes.byref(L(5, 5)), None)',
    ],
    statuses: ['success', 'crashed'],
  },
};
for (const [what, { body, statuses }] of Object.entries(hostile)) {
  test(`hostile code: ${what}`, async (t) => {
    t.timeout(longTestMs);
    const { outcome, peakMib } = await peakDuring(() => run(runtime(), handler(...body), limitedFor(statuses)));
    t.true(statuses.includes(outcome.status), JSON.stringify({ ...outcome, logs: outcome.logs.length }));
    t.true(peakMib < 64 + 150, `${peakMib} MiB`);
    await survives(t, runtime());
  });
}

/** Actions that must not be possible: the name of the error, or the result. */
const refused: Record<string, string> = {
  'memory of the parent': 'open("/proc/%d/mem" % os.getppid(), "rb").read(1)',
  'descriptors of the parent': 'os.listdir("/proc/%d/fd" % os.getppid())',
  'environment of the parent': 'open("/proc/%d/environ" % os.getppid()).read()',
  'maps of the parent': 'open("/proc/%d/maps" % os.getppid()).read()',
  'root folder of the parent': 'os.listdir("/proc/%d/root/" % os.getppid())',
  'memory of the first process': 'open("/proc/1/mem", "r+b", 0).close()',
  'maps of the first process': 'open("/proc/1/maps").read()',
  'descriptors of the first process': 'os.listdir("/proc/1/fd")',
  'a file in place of the first process': 'open("/proc/1/x", "w")',
  'tracing the parent': '1 / (ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) + 1)',
  'raising a limit': 'resource.setrlimit(resource.RLIMIT_NPROC, (500, 500))',
  'raising the memory limit': 'resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))',
  mounting: '1 / (ctypes.CDLL(None).mount(b"x", b"/tmp", b"tmpfs", 0, 0) + 1)',
  'a new namespace': '1 / (ctypes.CDLL(None).unshare(0x10000000) + 1)',
  'a device': 'os.mknod("dev", 0o60600, os.makedev(8, 0))',
  'another user': 'os.setuid(0)',
  'writing to the system': 'open("/usr/x", "w")',
  'writing to our files': 'open("/app/guest/main.py", "a")',
  'files of the host': 'os.listdir("/etc/passwd")',
  'the network': 'socket.create_connection(("1.1.1.1", 80), 2)',
  'the descriptor of the host': 'os.fstat(5)',
};
test('what a function may not do is refused', async (t) => {
  const attempts = Object.entries(refused).flatMap(([what, code]) => [
    'try:',
    `  ${code}; results[${JSON.stringify(what)}] = "done"`,
    'except Exception as error: pass',
  ]);
  t.deepEqual(await resultOf(t, runtime(), handler('results = {}', ...attempts, 'return results')), {});
  await survives(t, runtime());
});
