import { request, resultOf, run } from './harness.ts';
import { hostileHandler as handler, openPython, survives, pythonTest as test, usePython } from './python-harness.ts';

const runtime = usePython();

/** All marks in the memory of the process that can be written; the code itself holds none. */
const marksInMemory = handler(
  'import re',
  'found = set()',
  'with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:',
  '  for line in maps:',
  '    span, mode = line.split()[:2]',
  '    if not mode.startswith("rw"): continue',
  '    start, end = (int(place, 16) for place in span.split("-"))',
  '    memory.seek(start)',
  '    while start < end:',
  '      part = memory.read(min(end - start, 1 << 20))',
  '      if not part: break',
  '      start += len(part)',
  '      found.update(mark.decode() for mark in re.findall(b"mark-[0-9]{12}", part))',
  'return sorted(found)',
);

test('what earlier runs were given is in no memory that the next can read', async (t) => {
  const own = await openPython({ spares: 0 });
  t.teardown(() => own.close());
  const services = {
    call: () => Promise.resolve(JSON.stringify([{ name: `mark-${'3'.repeat(12)}` }])),
    close: () => Promise.resolve(),
  };
  const given = { payload: JSON.stringify(`mark-${'1'.repeat(12)}`), env: { TOKEN: `mark-${'2'.repeat(12)}` } };
  const requests = handler('return len(sdk.db.query("select 1"))');
  const long = { payload: JSON.stringify('x'.repeat(300_000) + `mark-${'4'.repeat(12)}`) };
  for (const changes of [given, long]) {
    const outcome = await own.run(request(requests, changes), { services });
    t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  }
  t.deepEqual(await resultOf(t, own, marksInMemory), []);
  t.deepEqual(await resultOf(t, own, marksInMemory, { payload: JSON.stringify(`mark-${'5'.repeat(12)}`) }), [
    `mark-${'5'.repeat(12)}`,
  ]);
});

/** Ways in which a run says something; `mark(n)` makes a text that stands nowhere in the code. */
const saying: Readonly<Record<string, readonly string[]>> = {
  'a short log line': ['print(mark(1))'],
  'log lines of several streams': [
    'for n in range(50): print(mark(n), file=sys.stderr if n % 2 else sys.stdout)',
    'import logging; logging.warning(mark(50))',
  ],
  'a log line of another script': ['for n in range(50): print("é漢😀" + mark(n))'],
  'what a program writes': [
    'for n in range(20): subprocess.run(["echo", mark(n)], check=True)',
    'os.write(2, mark(20).encode())',
  ],
  'a short result': ['return mark(1)'],
  'a nested result': ['return {mark(1): [mark(2), {"é": mark(3)}]}'],
  'an error': ['class E(Exception): pass', 'E.__name__ = mark(1)', 'raise E(mark(2)) from ValueError(mark(3))'],
  'a call and its arguments': ['for n in range(20): sdk.db.query("select $1::text", [mark(n)])'],
};

for (const [what, body] of Object.entries(saying)) {
  test(`${what} is in no memory that the next run can read`, async (t) => {
    const own = await openPython({ spares: 0 });
    t.teardown(() => own.close());
    const requested: string[] = [];
    const services = {
      call: (_op: string, args: string) => {
        requested.push(args);
        return Promise.resolve('[]');
      },
      close: () => Promise.resolve(),
    };
    const mark = 'def mark(n): return "ma" + "rk-" + str(n).zfill(12)';
    const outcome = await own.run(request([mark, handler(...body)].join('\n')), { services });
    t.regex(JSON.stringify([outcome, requested]), /mark-0{10}/, 'it was said');
    t.deepEqual(await resultOf(t, own, marksInMemory), []);
  });
}

test('a run has the code of its own function when several are used in turn', async (t) => {
  const [one, two] = [request(handler('return 1')), request(handler('return 2'))];
  for (const [fn, expected] of [
    [one, '1'],
    [two, '2'],
    [one, '1'],
    [two, '2'],
  ] as const)
    t.is((await runtime().run(fn)).result, expected);
});

const poll = handler(
  'status = os.stat("/tmp")',
  'try: attributes = os.listxattr("/tmp")',
  'except OSError as error: attributes = error.errno',
  'return [oct(status.st_mode), status.st_uid, status.st_atime == 12345, attributes, len(os.listdir("/tmp"))]',
);

const tampering: Readonly<Record<string, readonly string[]>> = {
  'extended attributes': [
    'for work in (lambda: os.setxattr("/tmp", "user.note", b"1"), lambda: os.setxattr("f", "user.note", b"1")):',
    '  open("f", "w").close()',
    '  try: work()',
    '  except OSError as error: assert error.errno == 95, error',
    '  else: raise AssertionError("an attribute was set")',
  ],
  'an access list': [
    'acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in ((1, 7, 2**32 - 1), (4, 7, 2**32 - 1), (32, 7, 2**32 - 1)))',
    'try: os.setxattr("/tmp", "system.posix_acl_default", acl)',
    'except OSError as error: assert error.errno == 95, error',
  ],
  'a mode that shuts everybody out': ['os.chmod("/tmp", 0)'],
  'a mode that hides what lies in it': ['os.chmod("/tmp", 0o300)'],
  'a mode that is only another one': ['os.chmod("/tmp", 0o1755)'],
  'a time': ['os.utime("/tmp", (12345, 12345))'],
  files: ['for n in range(10): open("/tmp/left%d" % n, "w").close()'],
};

for (const [what, body] of Object.entries(tampering)) {
  test(`${what} of /tmp: the next run finds it as it was`, async (t) => {
    const before = await resultOf(t, runtime(), poll);
    const outcome = await run(runtime(), handler(...body, 'return 1'));
    t.is(outcome.status, 'success', JSON.stringify(outcome.error));
    t.deepEqual(await resultOf(t, runtime(), poll), before);
    await survives(t, runtime());
  });
}

test('files can be copied with all that belongs to them, as where no attributes are known', async (t) => {
  const code = handler(
    'import shutil',
    'open("a", "w").write("text"); os.chmod("a", 0o640)',
    'shutil.copy2("a", "b"); subprocess.run(["cp", "-a", "a", "c"], check=True)',
    'return [open(name).read() + oct(os.stat(name).st_mode) for name in ("b", "c")]',
  );
  t.deepEqual(await resultOf(t, runtime(), code), ['text0o100640', 'text0o100640']);
});
