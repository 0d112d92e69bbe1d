import { existsSync } from 'node:fs';
import test, { type ExecutionContext } from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { type Architecture, seccompFilter } from '#workers/runtimes/seccomp.ts';
import { denied, extendedAttributes, sifted } from '#workers/runtimes/seccomp-syscalls.ts';
import { outputOf } from '#workers/runtimes/spawn.ts';
import { runFilter } from './bpf.ts';
import { sandbox } from './harness.ts';
import { strictTest } from './strict-test.ts';

const audit = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
const architectures = Object.keys(audit) as Architecture[];
const allow = 0x7fff0000;
const kill = 0x80000000;
const errno = (number: number): number => 0x00050000 + number;

const programOf = (architecture: Architecture): Buffer => seccompFilter(architecture) ?? Buffer.alloc(0);
const ask = (architecture: Architecture, number: number | null, ...args: number[]): number =>
  runFilter(programOf(architecture), { number: number ?? -1, architecture: audit[architecture], args });

/** System calls that Node, Python and libc need. */
const needed = {
  read: { x64: 0, arm64: 63 },
  write: { x64: 1, arm64: 64 },
  mmap: { x64: 9, arm64: 222 },
  execve: { x64: 59, arm64: 221 },
  exit_group: { x64: 231, arm64: 94 },
  futex: { x64: 202, arm64: 98 },
  connect: { x64: 42, arm64: 203 },
  prlimit64: { x64: 302, arm64: 261 },
  epoll_ctl: { x64: 233, arm64: 21 },
  clock_gettime: { x64: 228, arm64: 113 },
  getrandom: { x64: 318, arm64: 278 },
  rseq: { x64: 334, arm64: 293 },
  statx: { x64: 332, arm64: 291 },
};

// The numbers of arm64 are run through an interpreter only: the machine that runs this test is mostly not one.
for (const architecture of architectures) {
  test(`on ${architecture} files have no attributes that outlive them`, (t) => {
    for (const [name, numbers] of Object.entries(extendedAttributes))
      t.is(ask(architecture, numbers[architecture]), errno(95), name);
    const { ioctl } = sifted;
    for (const setFlags of [0x40086602, 0x40046602, 0x401c5820])
      t.is(ask(architecture, ioctl[architecture], 0, setFlags), errno(1));
  });

  test(`on ${architecture} no session can be begun, which the scheduler would weigh like the platform`, (t) => {
    t.is(ask(architecture, sifted.setsid[architecture]), errno(0));
  });

  test(`on ${architecture} the filter refuses what it lists, and lets pass what guests need`, (t) => {
    for (const [name, numbers] of Object.entries(denied)) {
      const number = numbers[architecture];
      if (number !== null) t.is(ask(architecture, number), errno(1), name);
    }
    for (const [name, numbers] of Object.entries(needed)) t.is(ask(architecture, numbers[architecture]), allow, name);
  });

  test(`on ${architecture} calls of another architecture end the process`, (t) => {
    const program = programOf(architecture);
    const i386 = 0x40000003;
    for (const other of [i386, 0x40000028, 0, audit[architecture === 'x64' ? 'arm64' : 'x64']])
      t.is(runFilter(program, { number: 0, architecture: other }), kill);
    const x32 = ask(architecture, 0x40000000 + 39);
    t.is(x32, architecture === 'x64' ? kill : allow);
  });

  test(`on ${architecture} threads and processes can be made, namespaces cannot`, (t) => {
    const { clone, clone3 } = sifted;
    const [thread, fork] = [0x3d0f00, 0x1200011];
    for (const flags of [thread, fork]) t.is(ask(architecture, clone[architecture], flags), allow);
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
      t.is(ask(architecture, clone[architecture], fork + flag), errno(1), flag.toString(16));
    t.is(ask(architecture, clone3[architecture]), errno(38));
  });

  test(`on ${architecture} sockets are those of the internet and of files`, (t) => {
    for (const call of [sifted.socket[architecture], sifted.socketpair[architecture]]) {
      for (const family of [1, 2, 10]) t.is(ask(architecture, call, family, 1, 0), allow);
      for (const protocol of [1, 6, 17]) t.is(ask(architecture, call, 2, 1, protocol), allow);
      for (const family of [0, 3, 16, 17, 38, 40, 44]) t.is(ask(architecture, call, family, 3, 0), errno(97));
      for (const protocol of [33, 132, 136, 255, 262]) t.is(ask(architecture, call, 2, 1, protocol), errno(93));
    }
  });

  test(`on ${architecture} nothing is typed into the terminal`, (t) => {
    for (const command of [0x5412, 0x541c]) t.is(ask(architecture, sifted.ioctl[architecture], 0, command), errno(1));
    t.is(ask(architecture, sifted.ioctl[architecture], 0, 0x5401), allow);
  });
}

test('no number stands for two calls', (t) => {
  for (const architecture of architectures) {
    const numbers = Object.values({ ...denied, ...sifted, ...needed }).flatMap((call) => call[architecture] ?? []);
    t.is(new Set(numbers).size, numbers.length);
  }
});

test('there is no filter for a machine whose calls we do not know', (t) => {
  t.is(seccompFilter('riscv64'), null);
});

/** Runs a Python program where a guest runs; its last expression is printed as JSON. */
async function inside(t: ExecutionContext, program: string): Promise<unknown> {
  const python = { source: '/usr/bin/python3', target: '/usr/bin/python3' };
  const script = `import ctypes, errno, json, os, socket, subprocess\n${program}`;
  const command = sandbox.command({ program: python, args: ['-c', script], files: [], env: {}, dataMib: 512 }, 11);
  t.timeout(longTestMs);
  return JSON.parse(await outputOf(command, 30_000));
}

/** Needs a Python that stands where guests see it. */
const pythonTest: typeof strictTest = (title, run) =>
  existsSync('/usr/bin/python3') ? strictTest(title, run) : test.skip(`${title} (needs /usr/bin/python3)`, run);

pythonTest('in the sandbox each listed call is refused by the kernel', async (t) => {
  const calls = Object.entries(denied).flatMap(([name, numbers]) => {
    const number = numbers[process.arch as Architecture];
    return number === null ? [] : [[name, number]];
  });
  const program = `
libc = ctypes.CDLL(None, use_errno=True)
seen = {}
for name, number in json.loads('${JSON.stringify(calls)}'):
    ctypes.set_errno(0)
    answer = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    seen[name] = errno.errorcode.get(ctypes.get_errno()) if answer == -1 else answer
print(json.dumps(seen))`;
  t.deepEqual(await inside(t, program), Object.fromEntries(calls.map(([name]) => [name, 'EPERM'])));
});

pythonTest('in the sandbox new namespaces, odd sockets and other interfaces are refused', async (t) => {
  const { clone, clone3 } = sifted;
  const arch = process.arch as Architecture;
  const program = `
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    answer = libc.syscall(*args)
    return errno.errorcode.get(ctypes.get_errno()) if answer == -1 else answer
def opened(*args):
    try:
        socket.socket(*args).close()
        return 'open'
    except OSError as error:
        return errno.errorcode[error.errno]
def odd():
    child = os.fork()
    if child == 0:
        libc.syscall(0x40000000 + 39)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps([
    call(${clone[arch]}, 0x10000000 + 17, 0, 0, 0, 0), call(${clone3[arch]}, 0, 0),
    opened(16, 3, 0), opened(17, 3, 0), opened(40, 1, 0), opened(38, 5, 0), opened(2, 1, 262), opened(2, 3, 255),
    opened(1, 1), opened(2, 1), opened(2, 2), opened(10, 1), odd()]))`;
  const refused = Array(4).fill('EAFNOSUPPORT');
  const open = Array(4).fill('open');
  const protocols = ['EPROTONOSUPPORT', 'EPROTONOSUPPORT'];
  const killed = arch === 'x64' ? -31 : 0;
  t.deepEqual(await inside(t, program), ['EPERM', 'ENOSYS', ...refused, ...protocols, ...open, killed]);
});

pythonTest('in the sandbox Python forks, threads, starts programs and talks to itself', async (t) => {
  const program = `
import asyncio, concurrent.futures, tempfile
async def talk():
    async def echo(reader, writer):
        writer.write(await reader.read(5))
        writer.close()
    server = await asyncio.start_server(echo, '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b'hello')
    return (await reader.read()).decode()
child = os.fork()
if child == 0: os._exit(7)
forked = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
ran = subprocess.run(['/bin/sh', '-c', 'echo $((6 * 7))'], capture_output=True, text=True).stdout.strip()
threads = list(concurrent.futures.ThreadPoolExecutor(4).map(lambda n: n * n, range(4)))
with tempfile.TemporaryFile() as file: file.write(b'x' * 1000)
print(json.dumps([forked, ran, threads, asyncio.run(talk())]))`;
  t.deepEqual(await inside(t, program), [7, '42', [0, 1, 4, 9], 'hello']);
});
