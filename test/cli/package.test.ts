import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { openDashboard } from '#test/support/session-cookie.ts';
import { longTestMs } from '#test/support/time-outs.ts';

const platform = usePlatform(test);
const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');

let base: string;
let tarball: string;

test.before('the package is made', async () => {
  base = await mkdtemp(path.join(tmpdir(), 'plinth package '));
  tarball = (await run(process.execPath, [path.join(root, 'cli/build.mjs'), path.join(base, 'dist')])).stdout.trim();
});
test.after.always('the folders are removed', () => rm(base, { recursive: true, force: true }));

/** Every Node of this machine that the package is made for: the project's own, and the system's. */
const nodes = (): { program: string; version: string }[] => {
  const folders = ['/usr/bin', '/usr/local/bin', ...(process.env['PATH'] ?? '').split(':')];
  const programs = [process.execPath, ...folders.map((folder) => path.join(folder, 'node'))];
  const found = new Map<string, string>();
  for (const program of programs) {
    try {
      const version = execFileSync(program, ['--version'], { stdio: ['ignore', 'pipe', 'ignore'] })
        .toString()
        .trim();
      const major = Number(version.slice(1).split('.', 1)[0]);
      if (major >= 20 && !found.has(version)) found.set(version, program);
    } catch {
      // There is none in that folder.
    }
  }
  return [...found].map(([version, program]) => ({ version, program }));
};

test('the package has no dependency, no script and no more than it needs', async (t) => {
  const folder = await mkdtemp(path.join(base, 'unpacked-'));
  await run('tar', ['-xzf', tarball, '-C', folder]);
  const files = await readdir(path.join(folder, 'package'));
  const parts = files.filter((file) => /^plinth-[A-Z0-9]{8}\.mjs$/.test(file));
  t.deepEqual(files.filter((file) => !parts.includes(file)).toSorted(), [
    'LICENSE',
    'README.md',
    'functions.d.ts',
    'package.json',
    'plinth.mjs',
  ]);
  const manifest = JSON.parse(await readFile(path.join(folder, 'package/package.json'), 'utf8'));
  for (const field of ['dependencies', 'scripts', 'optionalDependencies']) t.is(manifest[field], undefined);
  const { mode } = await stat(path.join(folder, 'package/plinth.mjs'));
  const sizes = [...parts, 'plinth.mjs'].map(async (file) => (await stat(path.join(folder, 'package', file))).size);
  const size = (await Promise.all(sizes)).reduce((sum, one) => sum + one, 0);
  t.true(size <= 250_000, `${size} bytes`);
  t.true((mode & 0o111) !== 0);
});

/** The commands of docs/cli.md up to what a build server does, in their order. */
const examples = async (): Promise<string[]> => {
  const text = await readFile(path.join(root, 'docs/cli.md'), 'utf8');
  const daily = text.slice(0, text.indexOf('## On a build server'));
  return [...daily.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block = '']) => block.trim().split('\n'));
};

interface Ran {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a line of a shell; a command that goes on until Ctrl-C is ended by it once it is ready. */
const runLine = (line: string, cwd: string, env: NodeJS.ProcessEnv, onOutput: (text: string) => void): Promise<Ran> =>
  new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', `exec ${line}`], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (piece: Buffer) => {
        const wasReady = output.includes('Ctrl-C ends it');
        output += piece.toString();
        if (!wasReady && output.includes('Ctrl-C ends it')) child.kill('SIGINT');
        onOutput(output);
      });
    }
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });

for (const { program, version } of nodes()) {
  test.serial(`the examples of the documentation work as they are written, under Node ${version}`, async (t) => {
    t.timeout(longTestMs);
    const folder = await mkdtemp(path.join(base, 'empty-'));
    const env = {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:PLINTH_|NODE_|npm_)/.test(name))),
      HOME: folder,
      PATH: `${path.join(folder, 'node_modules/.bin')}:${path.dirname(program)}:${process.env['PATH']}`,
    };
    await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--no-save', tarball], { cwd: folder, env });
    const user = await platform().client.signUp();
    const cookie = await openDashboard(platform(), user);
    let isApproved = false;
    const approve = (output: string): void => {
      const [, code] = /user_code=([A-Z]{4}-[A-Z]{4})/.exec(output) ?? [];
      if (code === undefined || isApproved) return;
      isApproved = true;
      const headers = { cookie, origin: platform().base };
      void platform().client.call('POST', '/auth/device/approve', { headers, body: { user_code: code } });
    };
    const outputs = new Map<string, string>();
    for (const line of await examples()) {
      const ran = await runLine(line.replace('https://plinth.example', platform().base), folder, env, approve);
      const isEndless = /^plinth (?:listen|functions serve)/.test(line);
      t.is(ran.code, isEndless ? 130 : 0, `${line}\n${ran.output}`);
      outputs.set(line, ran.output);
    }
    const of = (start: string): string => [...outputs].find(([line]) => line.startsWith(start))?.[1] ?? '';
    t.regex(of('plinth functions invoke'), /"name": "Mary"/);
    t.regex(of('plinth storage ls'), /backup\/seed\.sql/);
    t.regex(of('plinth status'), new RegExp(user.email));
  });
}
