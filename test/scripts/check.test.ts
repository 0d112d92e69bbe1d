import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { filesToLint, summarize } from '#scripts/commands/check.ts';
import { temporaryFolder } from './support.ts';

const types = { name: 'types', ok: true, seconds: 1.04, output: 'nothing to see' };
const lint = { name: 'lint', ok: false, seconds: 2, output: 'a bad line' };

interface Repository {
  readonly root: string;
  readonly git: (...args: string[]) => void;
  readonly write: (file: string, text: string) => void;
}

/** A repository with one commit on main, in which the current branch is `work`. */
const repository = (t: ExecutionContext): Repository => {
  const root = temporaryFolder(t);
  const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
  const git = (...args: string[]): void => {
    execFileSync('git', [...identity, ...args], { cwd: root, stdio: 'ignore' });
  };
  const write = (file: string, text: string): void => {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
  };
  git('init', '-b', 'main');
  for (const file of ['lib/kept.ts', 'lib/edited.ts', 'lib/removed.ts', 'tsconfig.json']) write(file, 'first');
  git('add', '.');
  git('commit', '-m', 'first');
  git('checkout', '-b', 'work');
  return { root, git, write };
};

test('the summary ends with one line that names every part', (t) => {
  t.is(summarize([types, lint]).split('\n').at(-1), 'check: types ok (1.0 s), lint FAILED (2.0 s)');
});

test('the output of a part that failed is shown, that of the others is not', (t) => {
  const text = summarize([types, lint]);
  t.true(text.includes('a bad line'));
  t.false(text.includes('nothing to see'));
});

test('nothing is linted in a checkout that is the same as the main branch', (t) => {
  t.deepEqual(filesToLint([], {}, repository(t).root), []);
});

test('the files that differ from the main branch are linted, committed or not', (t) => {
  const { root, git, write } = repository(t);
  write('lib/committed.ts', 'new');
  git('rm', 'lib/removed.ts');
  git('add', '.');
  git('commit', '-m', 'second');
  write('lib/edited.ts', 'other');
  write('lib/untracked file.mjs', 'new');
  write('docs/page.md', 'new');
  t.deepEqual(filesToLint([], {}, root), ['lib/committed.ts', 'lib/edited.ts', 'lib/untracked file.mjs']);
});

test('everything is linted on request, in CI, after a change of the rules, and where there is no repository', (t) => {
  const { root, write } = repository(t);
  t.is(filesToLint(['--all'], {}, root), null);
  t.is(filesToLint([], { CI: 'true' }, root), null);
  write('tsconfig.json', 'other');
  t.is(filesToLint([], {}, root), null);
  t.is(filesToLint([], {}, temporaryFolder(t)), null);
});
