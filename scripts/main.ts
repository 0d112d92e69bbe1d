import { pathToFileURL } from 'node:url';
import path from 'node:path';
import { bench } from './commands/bench.ts';
import { check } from './commands/check.ts';
import type { Command } from './commands/command.ts';
import { start } from './commands/start.ts';
import { stop } from './commands/stop.ts';
import { testServers } from './commands/test-servers.ts';
import { test } from './commands/test.ts';
import { StartError, explain } from './errors.ts';

const runFile: Command = async ([file, ...rest], root) => {
  if (file === undefined) throw new StartError('usage: node scripts/cli.mjs run FILE [arguments]');
  const absolute = path.resolve(root, file);
  process.argv = [process.execPath, absolute, ...rest];
  await import(pathToFileURL(absolute).href);
  // The file may still be at work, and sets its own exit code.
  return new Promise((resolve) => {
    process.once('beforeExit', (code) => resolve(code));
  });
};

const commands: Readonly<Record<string, Command>> = {
  start,
  stop,
  test,
  'test-servers': testServers,
  check,
  bench,
  run: runFile,
};

/** Runs one command to its end and leaves the process with its exit code. */
export const main = async (name: string, args: readonly string[], root: string): Promise<never> => {
  try {
    const command = commands[name];
    if (command === undefined) throw new StartError(`unknown command ${name}`);
    process.exit(await command(args, root));
  } catch (error) {
    const known = explain(error);
    if (known === null) console.error(error);
    else console.error(`plinth: ${known.message}`);
    process.exit(known?.exitCode ?? 1);
  }
};
