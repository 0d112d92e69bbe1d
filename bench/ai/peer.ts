import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Bench } from '../harness.ts';
import type { Server } from '../servers.ts';

/** Later versions of the server below it answer no stream. */
const manifest = {
  private: true,
  type: 'module',
  dependencies: { '@portkey-ai/gateway': '1.15.2' },
  overrides: { '@hono/node-server': '1.13.8' },
};

const patienceMs = 180_000;

/** Installs the peer beside the run's logs: 25 MB that nobody else needs. */
const install = async (folder: string): Promise<void> => {
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'package.json'), JSON.stringify(manifest));
  const npm = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--silent'];
  await promisify(execFile)('npm', npm, { cwd: folder, timeout: patienceMs });
};

/** Portkey's gateway, serving. */
export const startPeer = async (bench: Bench): Promise<Server> => {
  const folder = path.join(bench.folder, 'portkey');
  await install(folder);
  return bench.servers.start({
    name: 'portkey',
    file: 'bench/floors/portkey.ts',
    env: { BENCH_PEER: folder, NODE_ENV: 'production' },
  });
};
