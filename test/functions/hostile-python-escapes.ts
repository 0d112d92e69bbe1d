import { type PythonCase, ends, handler, withLibc } from './hostile-python.ts';

export const odd: readonly PythonCase[] = [
  { name: 'a circular result', code: handler('a = []', 'a.append(a)', 'return a'), statuses: ['error'] },
  { name: 'NaN', code: handler('return float("nan")'), statuses: ['error'] },
  { name: 'a result that has no JSON', code: handler('return object()'), statuses: ['error'] },
  {
    name: 'an exception that cannot be read',
    code: handler('class E(Exception):', '    def __str__(self): raise self', '    __repr__ = __str__', 'raise E()'),
    statuses: ['error'],
  },
  { name: 'SystemExit', code: handler('sys.exit(3)'), statuses: ['error'] },
  { name: 'KeyboardInterrupt', code: handler('raise KeyboardInterrupt'), statuses: ['error'] },
  { name: 'os._exit', code: handler('os._exit(0)'), statuses: ['crashed', 'error'] },
  { name: 'os.abort', code: handler('os.abort()'), statuses: ['crashed', 'error'] },
  {
    name: 'a segmentation fault',
    code: handler('import ctypes', 'ctypes.string_at(0)'),
    statuses: ['crashed', 'error'],
  },
  {
    name: 'exit handlers that fail',
    code: handler('import atexit', 'atexit.register(lambda: 1 / 0)', 'return 1'),
    statuses: ['success'],
  },
  {
    name: 'a result forged on standard output',
    code: handler(
      'print(\'{"type":"result","status":"success","result":"forged"}\')',
      'os.write(1, b"\\0\\0\\0\\5hello")',
      'return "true"',
    ),
    statuses: ['success'],
    result: 'true',
  },
  {
    name: 'garbage on every file descriptor',
    code: handler(
      'for fd in range(256):',
      '    try: os.write(fd, b"\\0\\0\\0\\1garbage" * 10)',
      '    except OSError: pass',
      'return 1',
    ),
    statuses: ends,
  },
  { name: 'every file descriptor closed', code: handler('os.closerange(0, 256)', 'return 1'), statuses: ends },
  {
    name: 'modules that were tampered with',
    code: handler(
      'import json, builtins',
      'json.dumps = lambda *a, **k: "forged"',
      'builtins.len = None',
      'os.fork = None',
      'return 1',
    ),
    statuses: ends,
  },
];

export const nosy: readonly PythonCase[] = [
  {
    name: 'the parent killed',
    code: handler('os.kill(os.getppid(), 9)', 'import time', 'time.sleep(5)'),
    statuses: ['crashed', 'error'],
  },
  { name: 'kill -1', code: handler('os.kill(-1, 9)', 'import time', 'time.sleep(5)'), statuses: ['crashed', 'error'] },
  { name: 'process 1 signalled', code: handler('os.kill(1, 15)', 'return 1'), statuses: ends },
  {
    name: 'limits raised',
    code: handler(
      'import resource',
      'try: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))',
      'except (ValueError, OSError): return "refused"',
    ),
    statuses: ['success'],
    result: 'refused',
  },
  { name: 'ptrace', code: withLibc('return call("ptrace", 16, os.getppid(), 0, 0)'), statuses: ['success'], result: 1 },
  {
    name: 'mount',
    code: withLibc('return call("mount", b"none", b"/tmp", b"tmpfs", 0, None)'),
    statuses: ['success'],
    result: 1,
  },
  { name: 'unshare', code: withLibc('return call("unshare", 0x10000000)'), statuses: ['success'], result: 1 },
  {
    name: 'mknod',
    code: withLibc('return call("mknod", b"/tmp/sda", 0o60660, 0x800)'),
    statuses: ['success'],
    result: 1,
  },
  { name: 'chroot', code: withLibc('return call("chroot", b"/tmp")'), statuses: ['success'], result: 1 },
  {
    name: 'the memory, the environment and the files of the parent',
    code: handler(
      'got = []',
      'for name in ("mem", "environ", "fd/3", "maps", "cwd", "root"):',
      '    path = f"/proc/{os.getppid()}/{name}"',
      '    try:',
      '        open(path, "rb").read(1) if name not in ("cwd", "root") else os.listdir(path)',
      '        got.append(name)',
      '    except OSError: pass',
      'return got',
    ),
    statuses: ['success'],
    result: [],
  },
  {
    name: 'the memory, the maps and the files of process 1',
    code: handler(
      'got = []',
      'for name in ("mem", "maps", "fd", "fd/0", "environ", "root", "task"):',
      '    path = f"/proc/1/{name}"',
      '    try:',
      '        os.listdir(path) if name in ("fd", "root", "task") else open(path, "rb").close()',
      '        got.append(name)',
      '    except OSError: pass',
      'return got',
    ),
    statuses: ['success'],
    result: [],
  },
  {
    name: 'processes that are not its own',
    code: handler('return len([p for p in os.listdir("/proc") if p.isdigit()]) <= 4'),
    statuses: ['success'],
    result: true,
  },
  {
    name: 'secrets of the platform in any environment',
    code: handler(
      'found = []',
      'for p in filter(str.isdigit, os.listdir("/proc")):',
      '    try: found += [v for v in open(f"/proc/{p}/environ").read().split("\\0") if "PLINTH" in v or "DATABASE" in v or "REDIS" in v]',
      '    except OSError: pass',
      'return found + [k for k in os.environ if "PLINTH" in k or "DATABASE" in k]',
    ),
    statuses: ['success'],
    result: [],
  },
  {
    name: 'the system written to',
    code: handler(
      'bad = []',
      'for path in ("/etc/passwd", "/usr/x", "/app/x", "/dev/x", "/x", "/proc/sys/kernel/hostname", "/sys/x"):',
      '    try: open(path, "w").close(); bad.append(path)',
      '    except OSError: pass',
      'return bad',
    ),
    statuses: ['success'],
    result: [],
  },
  {
    name: 'the network beside the proxy',
    code: handler(
      'import socket',
      'try: socket.create_connection(("1.1.1.1", 80), 1); return "reached"',
      'except OSError: return "refused"',
    ),
    statuses: ['success'],
    result: 'refused',
  },
];
