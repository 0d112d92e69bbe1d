import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { GuestCommand, GuestFile } from '../guest.ts';
import { insideScript } from './inside-script.ts';

/**
 * The guest: our own Node, the engine's addon, a few files of ours and the script for the isolates, each bound alone.
 */
export function guestCommand(): GuestCommand {
  const folder = join(import.meta.dirname, 'guest');
  const ours = readdirSync(folder)
    .filter((name) => name.endsWith('.cjs'))
    .map((name): GuestFile => ({ source: join(folder, name), target: `/app/guest/${name}` }));
  return {
    program: { source: process.execPath, target: '/app/node' },
    args: [
      ...nodeFlags,
      { source: join(folder, 'main.cjs'), target: '/app/guest/main.cjs' },
      engineAddon(),
      { source: insideScript(), target: '/app/inside.js' },
    ],
    files: ours,
    env: { TZ: 'UTC', LANG: 'C.UTF-8', ...malloc },
    dataMib: engineMib + (keptIsolates + 1) * codeRangeMib + maxFunctionMib,
  };
}

/**
 * V8 reserves 512 MiB for machine code in each isolate, Node's own included. The kernel counts them although nobody
 * touches them, so its ceiling cannot be near a function's own limit: that is the watchdog's. RLIMIT_AS would have to
 * let twice as much pass.
 */
const codeRangeMib = 514;
const keptIsolates = 4;
const engineMib = 768;
const maxFunctionMib = 1024;

const nodeFlags = [
  // isolated-vm does not work beside Node's start-up snapshot.
  '--no-node-snapshot',
  // Contexts of ended runs are collected at 8 MiB, not at 30: a runner that was used stays at half the size (25 MB of
  // its own against 45) and 10,000 runs take no longer.
  '--initial-old-space-size=8',
  '--max-old-space-size=128',
  '--v8-pool-size=2',
  // A run leaves a context behind: helpers that collect it side by side take more from others than they save it.
  '--single-threaded-gc',
  '--disable-sigusr1',
  '--no-warnings',
];

/** isolated-vm's addon for the Node that runs us, found as the package itself finds it. */
function engineAddon(): GuestFile {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve('isolated-vm/package.json');
  const { resolve } = createRequire(manifest)('node-gyp-build') as { resolve: (folder: string) => string };
  return { source: resolve(dirname(manifest)), target: '/app/isolated_vm.node' };
}

/**
 * Makes glibc give buffers back to the kernel when they are freed. Left alone it moves its threshold up and keeps them
 * in the arena of the thread that had them, where the next run, on another thread, finds nothing: two runs that use
 * 80 MiB each then look like one that uses 160.
 */
const malloc = { MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '131072', MALLOC_ARENA_MAX: '2' };
