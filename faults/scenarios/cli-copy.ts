import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { signUp } from '#bench/client.ts';
import { createDataProject } from '#bench/data/scene.ts';
import { type Workbench, openWorkbench } from '#test/support/cli.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';
import { type Site, openSite } from './storage-site.ts';

const gigabyte = 1024 ** 3;
const largeBytes = 5 * gigabyte;
const pieceBytes = 64 * 1024 * 1024;
const manyFiles = 10_000;
const filesInFolder = 100;
const kills = 3;
const killEveryMs = 5000;

/** Pieces that differ from each other, so that one in the wrong place is seen. */
function* pieces(): Generator<Buffer> {
  for (let at = 0; at < largeBytes; at += pieceBytes) {
    const piece = Buffer.alloc(pieceBytes, at / pieceBytes);
    piece.writeBigUInt64LE(BigInt(at), 0);
    yield piece;
  }
}

const hashOf = async (file: string): Promise<string> => {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), hash);
  return hash.digest('hex');
};

/** A developer's folder with a token of a new user and a project of theirs. */
const openDeveloper = async ({ url }: Site): Promise<{ bench: Workbench; at: string }> => {
  const user = await signUp(url());
  const project = await createDataProject(url(), user);
  const answer = await fetch(`${url()}/auth/tokens`, {
    method: 'POST',
    headers: user.headers,
    body: JSON.stringify({ name: 'faults', scopes: ['read', 'write', 'admin'] }),
  });
  const { token } = (await answer.json()) as { token: string };
  const bench = await openWorkbench({ PLINTH_URL: url(), PLINTH_ACCESS_TOKEN: token, PLINTH_PROJECT: project.ref });
  const shown = await fetch(`${url()}/projects/${project.id}`, { headers: user.headers });
  const { slug } = (await shown.json()) as { slug: string };
  return { bench, at: `plinth://${slug}` };
};

const copied = async (scene: Scene, site: Site, { bench, at }: { bench: Workbench; at: string }): Promise<string[]> => {
  const wrong: string[] = [];
  const run = async (...args: readonly string[]): Promise<void> => {
    const { code, stderr } = await bench.run(['storage', ...args]);
    if (code !== 0) wrong.push(`plinth storage ${args.join(' ')} ended with ${code}: ${stderr}`);
  };
  const large = path.join(bench.folder, 'large.bin');
  await pipeline(pieces(), createWriteStream(large));
  const sent = run('cp', 'large.bin', `${at}/large.bin`);
  scene.faultBegins();
  for (let n = 0; n < kills; n += 1) {
    await pause(killEveryMs);
    await site.kill();
  }
  scene.faultIsOver();
  await sent;
  await run('cp', `${at}/large.bin`, 'back.bin');
  if ((await hashOf(large)) !== (await hashOf(path.join(bench.folder, 'back.bin'))))
    wrong.push('the large file came back as another one');
  for (let n = 0; n < manyFiles; n += 1) {
    const folder = path.join(bench.folder, 'many', String(Math.floor(n / filesInFolder)));
    if (n % filesInFolder === 0) await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, `${n}.txt`), `file ${n}`);
  }
  await run('cp', '-r', 'many', `${at}/many`);
  const { value } = await bench.json(['storage', 'ls', `${at}/many/`, '-r']);
  const found = (value as { objects?: unknown[] } | undefined)?.objects?.length;
  if (found !== manyFiles) wrong.push(`${found} of ${manyFiles} files are listed`);
  return wrong;
};

export const cliCopyScenarios: readonly Scenario[] = [
  {
    name: 'command line: API killed amidst a copy of 5 GB',
    did: `${kills} times kill -9 of the API while \`plinth storage cp\` sends a file of 5 GB: the command goes on by itself, and the file comes back as it was; then ${manyFiles} files by one command are all there`,
    isWitnessed: false,
    run: async (scene) => {
      const site = await openSite(scene, { processes: 1, store: {} });
      const developer = await openDeveloper(site);
      try {
        return await copied(scene, site, developer);
      } finally {
        await rm(path.dirname(developer.bench.folder), { recursive: true, force: true });
        await site.end();
      }
    },
  },
];
