import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { filesToGroup, writeTestGroups } from '#scripts/test-groups.ts';
import { temporaryFolder } from './support.ts';

/** A checkout with these test files. */
const checkout = (t: ExecutionContext, files: Readonly<Record<string, string>>): string => {
  const root = temporaryFolder(t);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
  }
  return root;
};

const groupsIn = (root: string, files: readonly string[]): string[][] => {
  const folder = path.join(root, 'groups');
  writeTestGroups(files, root, folder);
  return readdirSync(folder)
    .toSorted()
    .map((name) => JSON.parse(/runGroup\((.*)\)/.exec(readFileSync(path.join(folder, name), 'utf8'))?.[1] ?? ''));
};

test('the whole suite and folders are run in groups; files, titles and options are left to ava', (t) => {
  const root = checkout(t, { 'test/a/one.test.ts': '', 'test/a/help.ts': '', 'test/b/two.test.ts': '' });
  t.deepEqual(filesToGroup([], root), ['test/a/one.test.ts', 'test/b/two.test.ts']);
  t.deepEqual(filesToGroup(['--tap'], root), ['test/a/one.test.ts', 'test/b/two.test.ts']);
  t.deepEqual(filesToGroup(['test/b', 'test'], root), ['test/a/one.test.ts', 'test/b/two.test.ts']);
  for (const args of [['test/a/one.test.ts'], ['--match=one'], ['test/a', '--watch']])
    t.is(filesToGroup(args, root), null);
});

test('every file is in one group, and one that changes its process has a group for itself', (t) => {
  const names = Array.from({ length: 130 }, (_, i) => `test/f${i}.test.ts`);
  const root = checkout(t, {
    ...Object.fromEntries(names.map((name) => [name, ''])),
    'test/changes.test.ts': `process.env['DATABASE_URL'] = 'x';`,
  });
  const files = [...names, 'test/changes.test.ts'];
  const groups = groupsIn(root, files);
  t.deepEqual(groups.flat().toSorted(), files.toSorted());
  t.is(groups.length, 5);
  t.deepEqual(groups.at(-1), ['test/changes.test.ts']);
});
