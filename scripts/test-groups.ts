import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';

// Loading the application costs 1 to 2 s of CPU, and its files may share a platform, so few processes are cheap; three
// run at a time, so that several small groups end at about the same time.
const filesPerGroup = 40;
const fewestGroups = 3;

/**
 * A file that changes its process, or looks at its metrics, children or processor time: others of its group would be met
 * or counted.
 */
const needsOwnProcess = (root: string, file: string): boolean =>
  /process\.env\[.*\] = |support\/count-argon2|startTracing|\/metrics|metrics\.ts'|\bguests\(\)|hostile-scene|pythonGuests|threadCpuUsage/.test(
    readFileSync(path.join(root, file), 'utf8'),
  );

/** In turn, so that the files of one folder, some of which take long, are in different groups. */
const dealOut = (files: readonly string[]): string[][] => {
  const count = Math.min(files.length, Math.max(fewestGroups, Math.ceil(files.length / filesPerGroup)));
  return Array.from({ length: count }, (_, group) => files.filter((_file, index) => index % count === group));
};

const isFolder = (root: string, name: string): boolean =>
  statSync(path.join(root, name), { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * The test files that these arguments of `npm test` name when they are run in groups: all of them, or those of folders.
 * `null` when ava has to read the arguments itself: files, titles, watching.
 */
export const filesToGroup = (args: readonly string[], root: string): string[] | null => {
  const names = args.filter((arg) => arg !== '--tap');
  if (!names.every((name) => isFolder(root, name))) return null;
  const folders = names.length === 0 ? ['test'] : names;
  const files = folders.flatMap((folder) => globSync(path.join(folder, '**/*.test.ts'), { cwd: root }));
  return [...new Set(files)].toSorted();
};

/**
 * Writes a test file for each group of test files to `folder`. ava runs each in a process of its own; a file that needs
 * one for itself is a group.
 * @returns the pattern for ava, from the checkout
 */
export const writeTestGroups = (files: readonly string[], root: string, folder: string): string => {
  const alone = files.filter((file) => needsOwnProcess(root, file));
  const groups = [...dealOut(files.filter((file) => !alone.includes(file))), ...alone.map((file) => [file])];
  mkdirSync(folder, { recursive: true });
  for (const [index, group] of groups.entries()) {
    const text = `import { runGroup } from '#test/support/run-group.ts';\nrunGroup(${JSON.stringify(group)});\n`;
    writeFileSync(path.join(folder, `${String(index + 1).padStart(2, '0')}.test.ts`), text);
  }
  return `${path.relative(root, folder)}/*.test.ts`;
};
