import { existsSync, rmSync } from 'node:fs';
import test from 'ava';
import { makeMemoryFolder, memoryFolderOf } from '#scripts/infra/memory-folder.ts';
import { temporaryFolder } from './support.ts';

test('each data folder has a folder in memory of its own, where there is memory for one', (t) => {
  const [one, other] = [temporaryFolder(t), temporaryFolder(t)];
  t.not(memoryFolderOf(one), memoryFolderOf(other));
  const made = makeMemoryFolder(one);
  t.teardown(() => rmSync(memoryFolderOf(one), { recursive: true, force: true }));
  t.true(made === null || made === memoryFolderOf(one));
  t.is(existsSync(memoryFolderOf(one)), made !== null);
});
