import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { existsSync, readdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { until } from '#test/support/until.ts';
import { type Sandbox, SandboxUnavailable, openSandbox } from '#workers/runtimes/sandbox.ts';
import { outputOf } from '#workers/runtimes/spawn.ts';
import { bwrapPath, openRuntime, request, sandbox } from './harness.ts';
import { strictTest } from './strict-test.ts';

const run = promisify(execFile);
const node = { source: process.execPath, target: '/app/node' };

/** Runs a script in Node, started exactly as a guest is: what someone could do who has left the engine. */
async function escaped(script: string, within: Sandbox = sandbox): Promise<unknown> {
  const command = within.command(
    { program: node, args: ['-e', script], files: [], env: { ONLY: 'this' }, dataMib: 1024 },
    7,
  );
  return JSON.parse(await outputOf(command, 20_000));
}

const attempts = (list: Record<string, string>): string =>
  `const fs = require('node:fs'), cp = require('node:child_process'); const results = {};
   const attempt = (name, act) => { try { const result = act(); results[name] = result === undefined ? 'done' : result } catch (error) { results[name] = error.code ?? error.message } };
   ${Object.entries(list)
     .map(([name, code]) => `attempt(${JSON.stringify(name)}, () => { ${code} });`)
     .join('\n')}
   console.log(JSON.stringify(results));`;

test('a guest sees nothing of the environment of the platform', async (t) => {
  process.env['PLINTH_CANARY'] = 'sing';
  const seen = await escaped(
    `const read = (path) => { try { return require('node:fs').readFileSync(path, 'latin1') } catch { return '' } };
     console.log(JSON.stringify([process.env, ...['self', '1', process.ppid].map((pid) => read('/proc/' + pid + '/environ'))]))`,
  );
  t.deepEqual((seen as [object])[0], { ONLY: 'this', ...(sandbox.level === 'strict' ? { PWD: '/tmp' } : {}) });
  if (sandbox.level === 'strict') t.false(JSON.stringify(seen).includes('sing'));
});

strictTest('a guest has no network: not the host, not the world', async (t) => {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  let reached = 0;
  server.on('connection', () => (reached += 1));
  const { port } = server.address() as AddressInfo;
  const probe = `
    const net = require('node:net'), dns = require('node:dns');
    const connect = (host, port) => new Promise((resolve) => {
      const socket = net.connect({ host, port, timeout: 3000 });
      socket.on('connect', () => resolve('connected')).on('error', (error) => resolve(error.code)).on('timeout', () => resolve('timeout'));
    });
    const lookup = new Promise((resolve) => dns.lookup('example.com', (error) => resolve(error?.code ?? 'found')));
    Promise.all([connect('127.0.0.1', ${port}), connect('::1', ${port}), connect('1.1.1.1', 80), connect('169.254.169.254', 80), lookup])
      .then((results) => console.log(JSON.stringify([results, require('node:fs').readFileSync('/proc/net/dev', 'latin1').split('\\n').slice(2, -1).map((line) => line.split(':')[0].trim())])))`;
  const [[host, host6, world, metadata, name], interfaces] = (await escaped(probe)) as [string[], string[]];
  t.is(host, 'ECONNREFUSED');
  for (const answer of [host6, world, metadata])
    t.true(['ENETUNREACH', 'EADDRNOTAVAIL', 'ECONNREFUSED'].includes(answer ?? ''), answer);
  t.not(name, 'found');
  t.deepEqual(interfaces, ['lo']);
  t.is(reached, 0);
  server.close();
});

strictTest('a guest sees its own files and /usr, and can write only to its workspace', async (t) => {
  const canary = `canary-${process.pid}`;
  const seen = (await escaped(
    attempts({
      root: "return fs.readdirSync('/').sort().join(' ')",
      app: "return fs.readdirSync('/app').join(' ')",
      etc: "return fs.readdirSync('/etc').length",
      host: `return fs.readdirSync(${JSON.stringify(import.meta.dirname)}).length`,
      writeRoot: "fs.writeFileSync('/x', '')",
      writeUsr: "fs.writeFileSync('/usr/x', '')",
      writeDev: "fs.writeFileSync('/dev/shm/x', '')",
      writeApp: "fs.writeFileSync('/app/node', '')",
      writeProc: "fs.writeFileSync('/proc/sys/kernel/core_pattern', '')",
      writeTmp: `fs.writeFileSync('/tmp/${canary}', ''); return process.cwd()`,
      bigFile:
        "const fd = fs.openSync('big', 'w'); for (let i = 0; i < 12; i += 1) fs.writeSync(fd, Buffer.alloc(1 << 20))",
      fill: "for (let i = 0; i < 20; i += 1) fs.writeFileSync('fill' + i, Buffer.alloc(9 << 20))",
    }),
  )) as Record<string, unknown>;
  t.regex(String(seen['root']), /^app bin dev lib .*proc .*tmp usr$/);
  t.is(seen['app'], 'node');
  for (const absent of ['etc', 'host']) t.is(seen[absent], 'ENOENT', absent);
  for (const closed of ['writeRoot', 'writeUsr', 'writeDev', 'writeApp', 'writeProc']) {
    t.true(['EROFS', 'EACCES', 'EPERM'].includes(String(seen[closed])), `${closed}: ${String(seen[closed])}`);
  }
  t.is(seen['writeTmp'], '/tmp');
  t.is(seen['bigFile'], 'EFBIG');
  t.is(seen['fill'], 'ENOSPC');
  t.false(existsSync(join('/tmp', canary)));
});

strictTest('a guest has no rights, no other processes and no way to more of either', async (t) => {
  const seen = (await escaped(
    attempts({
      uid: 'return [process.getuid(), process.getgid(), process.getgroups().length].join(" ")',
      capabilities: "return /CapEff:\\s*(\\S+)/.exec(fs.readFileSync('/proc/self/status', 'latin1'))[1]",
      bounding: "return /CapBnd:\\s*(\\S+)/.exec(fs.readFileSync('/proc/self/status', 'latin1'))[1]",
      noNewPrivileges: "return /NoNewPrivs:\\s*(\\S+)/.exec(fs.readFileSync('/proc/self/status', 'latin1'))[1]",
      processes: "return fs.readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).length",
      userNamespace: "return cp.spawnSync('unshare', ['-U', 'true']).status",
      mount: "return cp.spawnSync('mount', ['-t', 'tmpfs', 'x', '/tmp']).status",
      become: 'process.setuid(0)',
      raise: "return cp.spawnSync('prlimit', ['--pid', String(process.pid), '--nproc=5000:5000']).status",
      forks:
        "let n = 0; for (; n < 100; n += 1) if (cp.spawn('sleep', ['5'], { stdio: 'ignore' }).on('error', () => {}).pid === undefined) break; return n",
      hostname: "return require('node:os').hostname()",
    }),
  )) as Record<string, unknown>;
  t.is(seen['uid'], '1000 1000 1');
  for (const set of ['capabilities', 'bounding']) t.is(seen[set], '0000000000000000');
  t.is(seen['noNewPrivileges'], '1');
  t.true(Number(seen['processes']) <= 2, String(seen['processes']));
  for (const refused of ['userNamespace', 'mount', 'raise']) t.not(seen[refused], 0, refused);
  t.true(['EPERM', 'EINVAL'].includes(String(seen['become'])), String(seen['become']));
  t.true(Number(seen['forks']) < 50, String(seen['forks']));
  t.is(seen['hostname'], 'function');
});

strictTest('nothing of the kernel can be set from inside, and little of the machine be read', async (t) => {
  const seen = (await escaped(
    `const fs = require('node:fs');
     const open = [], walk = (folder) => {
       for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
         const path = folder + '/' + entry.name;
         if (entry.isDirectory()) { try { walk(path) } catch {} continue }
         try { fs.closeSync(fs.openSync(path, fs.constants.O_WRONLY)); open.push(path) } catch {}
       }
     };
     for (const folder of ['/proc/sys', '/proc/fs', '/proc/bus', '/proc/irq', '/proc/acpi']) try { walk(folder) } catch {}
     const read = (path) => { try { return fs.readFileSync(path, 'latin1') } catch { return '' } };
     const readable = ['cmdline', 'kallsyms', 'keys', 'config.gz', 'kmsg', 'timer_list', 'kcore'].filter((name) => read('/proc/' + name) !== '');
     const list = (path) => { try { return fs.readdirSync(path) } catch (error) { return error.code } };
     console.log(JSON.stringify({ open, readable, sys: list('/sys'), local: list('/usr/local'), fds: list('/proc/self/fd').filter((fd) => fd < 10 && fs.existsSync('/proc/self/fd/' + fd)), limits: read('/proc/self/limits') }))`,
  )) as Record<'open' | 'readable' | 'local' | 'fds', string[]> & { sys: string; limits: string };
  t.deepEqual([seen.open, seen.readable, seen.sys], [[], [], 'ENOENT']);
  if (!process.execPath.startsWith('/usr/local/')) t.deepEqual(seen.local, []);
  for (const bounded of [
    'processes',
    'open files',
    'file size',
    'data size',
    'stack size',
    'locked memory',
    'pending signals',
    'msgqueue size',
    'core file size',
  ])
    t.regex(seen.limits, new RegExp(`^Max ${bounded} +\\d+ +\\d+ `, 'm'), bounded);
});

strictTest('a guest cannot take more memory than its ceiling', async (t) => {
  t.deepEqual(
    await escaped(attempts({ take: 'Buffer.allocUnsafeSlow(1 << 30)', less: 'Buffer.allocUnsafeSlow(64 << 20)' })),
    {
      take: 'ERR_MEMORY_ALLOCATION_FAILED',
      less: 'done',
    },
  );
});

strictTest('whatever a guest starts ends with it', async (t) => {
  const marker = `${300_000 + process.pid}`;
  const script = `
    const child = require('node:child_process').spawn('setsid', ['sh', '-c', 'trap "" TERM HUP; sleep ${marker} & sleep ${marker}'], { detached: true, stdio: 'ignore' });
    child.unref(); setTimeout(() => { console.log('1'); process.exit(0) }, 200);`;
  await escaped(script);
  // The kernel ends what is left in the namespace right after its first process, not in the same instant.
  await until(async () => !(await run('ps', ['-eo', 'args'])).stdout.includes(`sleep ${marker}`));
  t.pass();
});

const argumentsOf = (slot: number): readonly string[] =>
  sandbox.command({ program: node, args: [], files: [], env: {}, dataMib: 1024 }, slot).args;

strictTest('under root each slot has a user id of its own on the host', async (t) => {
  const [first, second] = [0, 1].map((slot) => argumentsOf(slot).find((argument) => argument.startsWith('--reuid=')));
  if (process.getuid?.() === 0) {
    t.regex(first ?? '', /^--reuid=[1-9]/);
    t.not(first, second);
  } else {
    t.is(first, undefined);
  }
});

strictTest('a checkout in a private folder works too', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'plinth-private-'));
  await chmod(folder, 0o700);
  const script = join(folder, 'script.cjs');
  await writeFile(script, 'console.log(JSON.stringify([__filename, process.getuid()]))');
  await chmod(script, 0o644);
  const file = { source: script, target: '/app/script.cjs' };
  const command = sandbox.command({ program: node, args: [file], files: [], env: {}, dataMib: 1024 }, 3);
  t.deepEqual(JSON.parse(await outputOf(command, 20_000)), ['/app/script.cjs', 1000]);
  await rm(folder, { recursive: true });
});

strictTest('of /usr a guest sees what programs need, and nothing that was put beside it', async (t) => {
  const needed = /^(bin|sbin|lib\w*|share|include)$/;
  const folders = readdirSync('/usr', { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const others = folders.map(({ name }) => name).filter((name) => !needed.test(name));
  const seen = await escaped(
    `const fs = require('node:fs'); const write = (path) => { try { fs.mkdirSync(path); return path } catch { return [] } };
     console.log(JSON.stringify(${JSON.stringify(others)}.flatMap((name) => [...fs.readdirSync('/usr/' + name), ...[write('/usr/' + name + '/x')].flat()])))`,
  );
  t.deepEqual(seen, []);
  t.true(others.includes('src') || !existsSync('/usr/src'));
});

const openBeside = (folder: string): Promise<Sandbox> =>
  openSandbox({ level: 'strict', local: true, bwrapPath, privateFolders: [folder] });

strictTest('strict refuses where guests would see what is private, and says what to do', async (t) => {
  for (const folder of ['/usr/lib/plinth/data', '/usr/share', '/lib/plinth', '/usr']) {
    const message = `SANDBOX=strict is not possible here: functions see the system's folders, and ${folder} lies there; move it to /opt.`;
    await t.throwsAsync(openBeside(folder), { instanceOf: SandboxUnavailable, message });
  }
  for (const folder of ['/usr/local/plinth', '/opt/plinth', '/usrlocal', '.data'])
    t.is((await openBeside(folder)).level, 'strict');
  const local = await openBeside('/usr/local/plinth');
  const program = { source: '/usr/local/bin/python3', target: '/usr/local/bin/python3' };
  const command = (): unknown => local.command({ program, args: [], files: [], env: {}, dataMib: 256 }, 0);
  t.throws(command, { instanceOf: SandboxUnavailable, message: /\/usr\/local\/plinth lies there/ });
});

/** A bubblewrap that answers as the real one does where the kernel refuses. */
async function refusingBwrap(): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'plinth-bwrap-')), 'bwrap');
  const refuse = 'echo "bwrap: No permissions to create new namespace" >&2; exit 1';
  await writeFile(path, `#!/bin/sh\nif [ "$1" = --version ]; then echo "bubblewrap 0.8.0"; else ${refuse}; fi\n`);
  await chmod(path, 0o755);
  await chmod(join(path, '..'), 0o755);
  return path;
}

test('without namespaces strict refuses in one sentence, and npm start falls back with a warning', async (t) => {
  const bwrap = await refusingBwrap();
  for (const options of [{ level: 'strict', local: true } as const, { level: undefined, local: false } as const]) {
    const error = await t.throwsAsync(openSandbox({ ...options, bwrapPath: bwrap }), {
      instanceOf: SandboxUnavailable,
    });
    t.regex(
      error.message,
      /^SANDBOX=strict is not possible here: .*No permissions to create new namespace.*SANDBOX=best-effort\.$/,
    );
    t.false(error.message.includes('\n'));
  }
  const fallback = await openSandbox({ level: undefined, local: true, bwrapPath: bwrap });
  t.is(fallback.level, 'best-effort');
  t.regex(fallback.warning ?? '', /No permissions to create new namespace/);
  await rm(join(bwrap, '..'), { recursive: true });
});

test('a bubblewrap that is not there is named, with the command that installs it', async (t) => {
  const missing = openSandbox({ level: 'strict', local: false, bwrapPath: '/nonexistent/bwrap' });
  await t.throwsAsync(missing, { message: /nonexistent\/bwrap.*apt-get install bubblewrap/ });
});

test('best-effort by hand asks for no namespaces and warns of nothing', async (t) => {
  const byHand = await openSandbox({ level: 'best-effort', local: false, bwrapPath });
  t.is(byHand.level, 'best-effort');
  t.is(byHand.warning, null);
  process.env['PLINTH_CANARY'] = 'sing';
  t.deepEqual(await escaped('console.log(JSON.stringify(process.env))', byHand), { ONLY: 'this' });
  const runtime = await openRuntime({ sandbox: byHand });
  t.teardown(() => runtime.close());
  t.is(runtime.level, 'best-effort');
  t.is((await runtime.run(request('exports.handler = () => 1'))).result, '1');
  t.is((await runtime.run(request('for (;;);', { timeoutMs: 200 }))).status, 'timeout');
  t.is((await runtime.run(request('exports.handler = () => 2'))).result, '2');
});
