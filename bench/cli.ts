import { execFile } from 'node:child_process';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { createProject, signUp } from './client.ts';
import {
  type Bench,
  type Benchmark,
  type Row,
  byTurns,
  count,
  median,
  ms,
  perSecond,
  range,
  seconds,
} from './harness.ts';
import { requiredIn } from './settings.ts';

const run = promisify(execFile);

/** The bundle as it is published. */
const makeBundle = async ({ root, folder }: Bench): Promise<string> => {
  const { stdout: tarball } = await run(process.execPath, [path.join(root, 'cli/build.mjs'), folder], { cwd: root });
  await run('tar', ['-xzf', tarball.trim(), '-C', folder]);
  return path.join(folder, 'package/plinth.mjs');
};

/** Processor time of a program, in ms: the shell knows that of what it has run. */
const cpuOf = async (args: readonly string[]): Promise<number> => {
  const { stdout } = await run('sh', ['-c', '"$@" >/dev/null; times', 'sh', process.execPath, ...args]);
  const [, children = ''] = stdout.trim().split('\n');
  return [...children.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (sum, [, minutes, rest]) => sum + Number(minutes) * 60_000 + Number(rest) * 1000,
    0,
  );
};

const starts = 21;

const startRows = async (bundle: string): Promise<Row[]> => {
  const pairs = await byTurns(
    starts,
    () => cpuOf([bundle, '--version']),
    () => cpuOf(['-e', '0']),
  );
  const [ours, floor] = [median(pairs.map((pair) => pair.ours)), median(pairs.map((pair) => pair.floor))];
  const sizes = (await readdir(path.dirname(bundle))).filter((name) => name.endsWith('.mjs'));
  const size = sizes.reduce((sum, name) => sum + statSync(path.join(path.dirname(bundle), name)).size, 0);
  return [
    {
      name: 'cli/start',
      ours: ms(ours),
      floor: ms(floor),
      ratio: ours / floor,
      target: { of: 'ratio', atMost: 1.3 },
      notes: [`CPU of plinth --version, ${starts} by turns with node -e 0`],
    },
    { name: 'cli/bundle', ours: { value: size / 1000, unit: 'KB' }, target: { of: 'ours', atMost: 250 }, notes: [] },
  ];
};

interface Scene {
  readonly folder: string;
  readonly plinth: (...args: string[]) => Promise<number>;
  readonly token: string;
  readonly url: string;
  readonly id: string;
}

const openScene = async (bench: Bench, bundle: string): Promise<Scene> => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(url);
  const id = await createProject(url, user);
  const token = user.headers['authorization']?.replace('Bearer ', '') ?? '';
  const folder = path.join(bench.folder, 'cli');
  mkdirSync(path.join(folder, 'plinth/migrations'), { recursive: true });
  const env = { ...process.env, HOME: folder, PLINTH_URL: url, PLINTH_PROJECT: id, PLINTH_ACCESS_TOKEN: token };
  const plinth = async (...args: string[]): Promise<number> => {
    const began = performance.now();
    await run(process.execPath, [bundle, ...args], { cwd: folder, env, maxBuffer: 100_000_000 });
    return performance.now() - began;
  };
  return { folder, plinth, token, url, id };
};

const [migrations, tables, functions] = [200, 100, 20];

const projectRows = async ({ folder, plinth }: Scene): Promise<Row[]> => {
  for (let i = 0; i < migrations; i += 1) {
    const sql =
      i < tables
        ? `create table t${i} (id bigint primary key, name text not null, at timestamptz);`
        : `comment on table t${i % tables} is 'number ${i}';`;
    writeFileSync(path.join(folder, 'plinth/migrations', `2026010100${String(i).padStart(4, '0')}_step.sql`), sql);
  }
  const push = await plinth('db', 'push');
  const types = [await plinth('db', 'types'), await plinth('db', 'types'), await plinth('db', 'types')];
  for (let i = 0; i < functions; i += 1) await plinth('functions', 'new', `bench-${i}`);
  await plinth('functions', 'deploy');
  const deploys = [
    await plinth('functions', 'deploy'),
    await plinth('functions', 'deploy'),
    await plinth('functions', 'deploy'),
  ];
  return [
    {
      name: 'cli/push-200',
      ours: seconds(push / 1000),
      target: { of: 'ours', atMost: 5 },
      notes: ['200 migrations, 100 of them tables'],
    },
    {
      name: 'cli/types-100',
      ours: ms(median(types)),
      target: { of: 'ours', atMost: 1000 },
      notes: [`wall time, ${range(types)}`],
    },
    {
      name: 'cli/deploy-unchanged',
      ours: ms(median(deploys)),
      target: { of: 'ours', atMost: 1000 },
      notes: [`20 functions, wall time, ${range(deploys)}`],
    },
  ];
};

const bytes = 1024 * 1024 * 1024;
const copies = 3;

/** The floor sends the same bytes by curl, in one request to the same endpoint. */
const copyRow = async ({ folder, plinth, token, url, id }: Scene): Promise<Row> => {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const project = (await (await fetch(`${url}/projects/${id}`, { headers })).json()) as { slug: string; ref: string };
  const body = JSON.stringify({ name: 'bench', kind: 'secret' });
  const { api_key: key } = (await (
    await fetch(`${url}/projects/${id}/api-keys`, { method: 'POST', headers, body })
  ).json()) as { api_key: string };
  const file = path.join(folder, 'large.bin');
  writeFileSync(file, Buffer.alloc(bytes, 7));
  // Both read it from memory.
  await readFile(file);
  const address = `${url}/p/${project.ref}/storage/v1/object/${project.slug}/by-curl.bin`;
  const curl = async (): Promise<number> => {
    const began = performance.now();
    const options = [
      '-sf',
      '-o',
      '/dev/null',
      '-X',
      'POST',
      '-H',
      `apikey: ${key}`,
      '-H',
      'x-upsert: true',
      '-H',
      'content-type: application/octet-stream',
    ];
    await run('curl', [...options, '-T', file, address]);
    return performance.now() - began;
  };
  const pairs = await byTurns(
    copies,
    () => plinth('storage', 'cp', 'large.bin', `plinth://${project.slug}/large.bin`),
    curl,
  );
  const rate = (all: readonly number[]): number => bytes / 1e6 / (median(all) / 1000);
  const [ours, floor] = [rate(pairs.map((pair) => pair.ours)), rate(pairs.map((pair) => pair.floor))];
  return {
    name: 'cli/copy',
    ours: { ...perSecond(ours), unit: 'MB/s' },
    floor: { ...perSecond(floor), unit: 'MB/s' },
    ratio: ours / floor,
    target: { of: 'ratio', atLeast: 0.7 },
    notes: [`${count(copies).value} by turns of 1 GiB; ours is resumable, starts a process and asks for the project`],
  };
};

/** The command line, as it is published. */
export const cliBenchmark: Benchmark = {
  name: 'cli',
  run: async (bench) => {
    const bundle = await makeBundle(bench);
    const scene = await openScene(bench, bundle);
    return [...(await startRows(bundle)), ...(await projectRows(scene)), await copyRow(scene)];
  },
};
