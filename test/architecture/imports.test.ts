import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import { root } from './source.ts';

/** Forbidden imports of each folder, one sample line each. */
const wrong: readonly [file: string, line: string][] = [
  ['lib/a.ts', `import '#queues/registry.ts';`],
  ['lib/b.ts', `import '#domain/platform.ts';`],
  ['lib/c.ts', `import '../api/app.ts';`],
  ['lib/d.ts', `import 'koa';`],
  ['lib/e.ts', `import '#workers/worker.ts';`],
  ['queues/a.ts', `import '#domain/platform.ts';`],
  ['queues/b.ts', `import '#api/app.ts';`],
  ['queues/c.ts', `import '../workers/worker.ts';`],
  ['queues/d.ts', `import '@koa/router';`],
  ['domain/jobs/a.ts', `import '#api/app.ts';`],
  ['domain/jobs/b.ts', `import '../../workers/worker.ts';`],
  ['domain/jobs/c.ts', `import 'koa';`],
  ['domain/jobs/d.ts', `import 'isolated-vm';`],
  ['api/a.ts', `import '#workers/worker.ts';`],
  ['api/routes/b.ts', `import '../../workers/worker.ts';`],
  ['api/c.ts', `import 'isolated-vm';`],
  ['api/d.ts', `import '#test/support/env.ts';`],
  ['workers/a.ts', `import '#api/app.ts';`],
  ['workers/processors/b.ts', `import '../../api/app.ts';`],
  ['workers/c.ts', `import 'koa';`],
  ['workers/d.ts', `import 'isolated-vm';`],
  ['workers/runtimes/javascript/e.ts', `import '#domain/platform.ts';`],
  ['cli/a.ts', `import '#lib/errors.ts';`],
  ['web/b.ts', `import '#api/app.ts';`],
];

/** The purpose of the layers. */
const right: readonly [file: string, line: string][] = [
  ['queues/ok.ts', `import '#lib/errors.ts';`],
  ['domain/jobs/ok.ts', `import '#queues/registry.ts';`],
  ['api/ok.ts', `import '#domain/platform.ts';`],
  ['api/koa.ts', `import 'koa';`],
  ['workers/ok.ts', `import '#domain/platform.ts';`],
  ['workers/runtimes/javascript/ok.ts', `import 'isolated-vm';`],
];

const lint = (folder: string): Promise<{ filename: string; code: string }[]> =>
  new Promise((resolve, reject) => {
    const program = path.join(root, 'node_modules/.bin/oxlint');
    execFile(program, ['--format', 'json', '.'], { cwd: folder }, (_failure, stdout, stderr) => {
      if (stdout === '') reject(new Error(stderr));
      else resolve((JSON.parse(stdout) as { diagnostics: { filename: string; code: string }[] }).diagnostics);
    });
  });

const normalized = (name: string): string => name.replaceAll('\\', '/').replace(/^\.\//, '');

test('the linter refuses an import against the direction of the layers, and no other', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'plinth-imports-'));
  try {
    const config = JSON.parse(readFileSync(path.join(root, '.oxlintrc.json'), 'utf8')) as Record<string, unknown>;
    // Types play no part in the direction, and need the whole checkout.
    writeFileSync(path.join(folder, '.oxlintrc.json'), JSON.stringify({ ...config, options: {} }));
    for (const [file, line] of [...wrong, ...right]) {
      mkdirSync(path.join(folder, path.dirname(file)), { recursive: true });
      writeFileSync(path.join(folder, file), `${line}\n`);
    }
    const found = (await lint(folder)).filter(({ code }) => code.includes('no-restricted-imports'));
    const refused = new Set(found.map(({ filename }) => normalized(filename)));
    t.deepEqual([...refused].toSorted(), wrong.map(([file]) => file).toSorted());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
