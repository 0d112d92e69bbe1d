import { spawnSync } from 'node:child_process';

const mainBranches = ['origin/main', 'main'];

/** The lines that git prints, or `null` where it cannot answer: no git, no repository, no such branch. */
const git = (root: string, args: readonly string[]): string[] | null => {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
  return status === 0 ? stdout.split(/[\0\n]/).filter((line) => line !== '') : null;
};

/** The newest commit that the work has in common with the main branch; without such a branch the current commit. */
const baseOf = (root: string): string => {
  const bases = mainBranches.map((branch) => git(root, ['merge-base', 'HEAD', branch])?.[0]);
  return bases.find((base) => base !== undefined) ?? 'HEAD';
};

/**
 * The files that differ from the main branch, those that are not committed yet included, as paths from `root`. `null`
 * where that cannot be known, for instance in an unpacked archive.
 */
export const changedFiles = (root: string): string[] | null => {
  const changed = git(root, ['diff', '--name-only', '--relative', '--diff-filter=d', '-z', baseOf(root)]);
  const untracked = git(root, ['ls-files', '--others', '--exclude-standard', '-z']);
  return changed === null || untracked === null ? null : [...new Set([...changed, ...untracked])].toSorted();
};
