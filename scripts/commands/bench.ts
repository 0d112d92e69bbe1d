import { spawn } from 'node:child_process';
import path from 'node:path';
import { onThrowawayPlatform } from '../throwaway.ts';
import type { Command } from './command.ts';

/** `npm run bench [arguments]`: the benchmarks against a platform set up as by `npm start`, on throw-away data. */
export const bench: Command = (args, root) =>
  onThrowawayPlatform(root, {
    durable: true,
    workers: 2,
    use: ({ stack }, env) => {
      const program = [path.join(root, 'bench/main.ts'), ...args];
      const child = spawn(process.execPath, program, { cwd: root, env, stdio: 'inherit', detached: true });
      return stack.attend('bench', child);
    },
  });
