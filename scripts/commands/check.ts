import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import path from 'node:path';
import { changedFiles } from '../changed-files.ts';
import { compileCacheIn } from '../platform.ts';
import { readSettings } from '../settings.ts';
import type { Command } from './command.ts';

interface Part {
  readonly name: string;
  /** Paths from the checkout, run by this Node. */
  readonly program: readonly string[];
}

export interface Finding {
  readonly name: string;
  readonly ok: boolean;
  readonly seconds: number;
  readonly output: string;
}

const bin = (name: string): string => path.join('node_modules/.bin', name);

const architectureTests = 'test/architecture/**/*.test.ts';
const lintable = /\.(tsx?|js|mjs|cjs)$/;
// A change of these files affects every file.
const configurations = new Set(['.oxlintrc.json', 'tsconfig.json', 'package.json', 'package-lock.json']);

/**
 * The files to lint, or `null` for all of them. Linting is the expensive part (18 s of CPU for all files, 2 s for
 * some), so a developer's run looks at what differs from the main branch only; `--all` and CI look at everything.
 */
export const filesToLint = (args: readonly string[], env: NodeJS.ProcessEnv, root: string): string[] | null => {
  if (args.includes('--all') || (env['CI'] ?? '') !== '') return null;
  const changed = changedFiles(root);
  if (changed === null || changed.some((file) => configurations.has(file))) return null;
  return changed.filter((file) => lintable.test(file));
};

const lintPart = (files: readonly string[] | null): Part[] => {
  if (files === null) return [{ name: 'lint', program: [bin('oxlint')] }];
  if (files.length === 0) return [];
  return [{ name: 'lint of changed files', program: [bin('oxlint'), '--no-error-on-unmatched-pattern', ...files] }];
};

const typesPart = (root: string): Part => {
  const buildInfo = path.join(root, '.data/check/types.tsbuildinfo');
  return { name: 'types', program: [bin('tsc'), '--noEmit', '--incremental', '--tsBuildInfoFile', buildInfo] };
};

/** The pages run in browsers, which have other globals. */
const webTypesPart: Part = {
  name: 'types of the pages',
  program: [bin('tsc'), '--noEmit', '--project', 'web'],
};

const parts = (root: string, lint: readonly string[] | null): Part[] => [
  typesPart(root),
  webTypesPart,
  ...lintPart(lint),
  { name: 'format', program: [bin('oxfmt'), '--check', '.'] },
  // Files, exports and dependencies that nothing uses.
  { name: 'unused', program: [bin('knip'), '--no-progress'] },
  ...(globSync(architectureTests, { cwd: root }).length > 0
    ? [{ name: 'architecture', program: [bin('ava'), architectureTests] }]
    : []),
];

const runPart = (root: string, { name, program }: Part): Promise<Finding> =>
  new Promise((resolve) => {
    const began = performance.now();
    const [command = '', ...args] = program;
    // The programs begin with `#!/usr/bin/env node`, and that must be this one.
    const PATH = `${path.dirname(process.execPath)}${path.delimiter}${process.env['PATH'] ?? ''}`;
    const { runtimeDir } = readSettings(process.env, root);
    const env = { ...compileCacheIn(runtimeDir), ...process.env, PATH, NO_COLOR: '1' };
    const child = spawn(path.join(root, command), args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => output.push(text));
    const finish = (ok: boolean): void =>
      resolve({ name, ok, seconds: (performance.now() - began) / 1000, output: output.join('').trim() });
    child.once('error', (error) => {
      output.push(error.message);
      finish(false);
    });
    child.once('close', (code) => finish(code === 0));
  });

/** One line that names each part, and what to print before it: the output of those that failed. */
export const summarize = (findings: readonly Finding[]): string => {
  const failed = findings.filter((finding) => !finding.ok);
  const details = failed.map(({ name, output }) => `── ${name} ──\n${output}\n`);
  const line = findings.map(({ name, ok, seconds }) => `${name} ${ok ? 'ok' : 'FAILED'} (${seconds.toFixed(1)} s)`);
  return [...details, `check: ${line.join(', ')}`].join('\n');
};

/**
 * `npm run check [-- --all]`: types, lint, format, unused code and the architecture tests; needs no servers. The parts
 * that follow one that failed run, too.
 */
export const check: Command = async (args, root) => {
  const lint = filesToLint(args, process.env, root);
  const findings = await Promise.all(parts(root, lint).map((part) => runPart(root, part)));
  console.log(summarize(findings));
  return findings.every((finding) => finding.ok) ? 0 : 1;
};
