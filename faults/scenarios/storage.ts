import { createHash, randomBytes } from 'node:crypto';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { openPlatform } from '#domain/platform.ts';
import { findProject } from '#domain/projects/store.ts';
import { openBytes } from '#domain/storage/bytes.ts';
import { checkFiles } from '#domain/storage/check.ts';
import { sweepFiles } from '#domain/storage/sweep.ts';
import { loadConfig } from '#lib/config.ts';
import { signUp } from '#bench/client.ts';
import { createDataProject } from '#bench/data/scene.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';

const uploaders = 6;
const latestKillMs = 700;
const refusedMs = 100;
const names = 12;
const minWell = 20;

/** An API that is killed and started again, with a project that has files. */
const openSite = async (scene: Scene) => {
  const dataDir = path.join(scene.stage.surroundings.site.dataDir, `files-${randomBytes(3).toString('hex')}`);
  const own = { PLINTH_LOCAL: 'on', PLINTH_RATE_LIMITS: 'off', DRAIN_MS: '3000', DATA_DIR: dataDir };
  let born = 0;
  const startApi = async (port: string): Promise<Child> => {
    born += 1;
    const child = scene.start(`api-${born}`, 'api/server.ts', { ...own, PORT: port });
    await child.ready;
    return child;
  };
  const worker = scene.start('worker', 'workers/server.ts', { ...own, WORKER_QUEUES: 'system' });
  let api = await startApi('0');
  await worker.ready;
  const port = String(api.port());
  const url = `http://127.0.0.1:${port}`;
  const project = await createDataProject(url, await signUp(url));
  return {
    url,
    project,
    dataDir,
    kill: async () => {
      api.signal('SIGKILL');
      await api.end;
      api = await startApi(port);
    },
    end: async () => {
      api.signal('SIGTERM');
      await api.end;
    },
  };
};

type Site = Awaited<ReturnType<typeof openSite>>;

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** The address of an object in the bucket that the project began with. */
const addressOf = async ({ url, project }: Site): Promise<string> => {
  const answer = await fetch(`${url}/storage/v1/bucket`, { headers: { apikey: project.key } });
  const [bucket] = (await answer.json()) as { id: string }[];
  if (bucket === undefined) throw new Error('the project has no bucket');
  return `${url}/storage/v1/object/${bucket.id}`;
};

interface Uploads {
  /** By name: the contents that may be there, the last acknowledged one and those that nobody heard of since. */
  readonly possible: Map<string, Set<string>>;
  well: number;
}

/** Puts one content after the other under a name of its own, and notes which may be there. */
const uploadOn = async (site: Site, object: string, isOver: () => boolean, uploads: Uploads): Promise<void> => {
  const possible = new Set<string>();
  uploads.possible.set(object, possible);
  while (!isOver()) {
    const bytes = randomBytes(100_000 + Math.floor(Math.random() * 2_000_000));
    const hash = sha256(bytes);
    const before = [...possible];
    possible.add(hash);
    const answer = await fetch(object, {
      method: 'POST',
      headers: { apikey: site.project.key, 'x-upsert': 'true', 'content-type': 'application/octet-stream' },
      body: bytes,
    }).catch(() => null);
    await answer?.text().catch(() => undefined);
    if (answer?.status === 200) {
      uploads.well += 1;
      for (const old of before) possible.delete(old);
    } else await pause(refusedMs);
  }
};

const startUploads = (site: Site, root: string) => {
  const uploads: Uploads = { possible: new Map(), well: 0 };
  let over = false;
  const running = Promise.all(
    Array.from({ length: uploaders }, (_, n) => uploadOn(site, `${root}/file-${n % names}`, () => over, uploads)),
  );
  return {
    stop: async (): Promise<Uploads> => {
      over = true;
      await running;
      return uploads;
    },
  };
};

const wrongContents = async ({ project }: Site, { possible }: Uploads): Promise<string[]> => {
  const wrong: string[] = [];
  for (const [object, contents] of possible) {
    const answer = await fetch(object, { headers: { apikey: project.key } });
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (answer.status !== 200 || !contents.has(sha256(bytes))) wrong.push(`${object} is none of what was put there`);
  }
  return wrong;
};

/** Rows and bytes agree, and what is left over goes with the sweep. */
const compared = async (scene: Scene, { project, dataDir }: Site): Promise<string[]> => {
  const config = loadConfig({ ...scene.env, DATA_DIR: dataDir });
  const platform = await openPlatform(config, pino({ level: 'silent' }));
  try {
    const found = await findProject(platform.db, project.id);
    if (found === undefined) return ['the project is gone'];
    const deps = { servers: platform.servers, bytes: await openBytes(config), keepHours: -1 };
    const before = await checkFiles(deps, found);
    const { removed, orphans } = await sweepFiles(deps, found, new AbortController().signal);
    await deps.bytes.removeUnfinished(new Date(Date.now() + 60_000));
    let unfinished = 0;
    for await (const _ of deps.bytes.unfinished()) unfinished += 1;
    scene.stage.print(`  ${removed} replaced contents and ${orphans} orphans were swept`);
    return [
      ...before.filter(({ kind }) => kind !== 'orphan').map(({ kind, what }) => `${kind}: ${what}`),
      ...(await checkFiles(deps, found)).map(({ kind, what }) => `after the sweep ${kind}: ${what}`),
      ...(unfinished > 0 ? [`${unfinished} unfinished writes are left`] : []),
    ];
  } finally {
    await platform.close();
  }
};

const killed = (name: string, kills: number): Scenario => ({
  name,
  did: `${kills} times kill -9 of the API at a random moment, while ${uploaders} clients replace files of up to 2 MB: each file is whole and one of those that may be there, rows and bytes agree, and nothing is left over after a sweep`,
  isWitnessed: false,
  run: async (scene) => {
    const site = await openSite(scene);
    const uploads = startUploads(site, await addressOf(site));
    scene.faultBegins();
    for (let n = 0; n < kills; n += 1) {
      await pause(Math.random() * latestKillMs);
      await site.kill();
    }
    scene.faultIsOver();
    const done = await uploads.stop();
    const wrong = await wrongContents(site, done);
    await site.end();
    scene.stage.print(`  ${done.well} uploads were acknowledged`);
    return [
      ...wrong,
      ...(await compared(scene, site)),
      ...(done.well < minWell ? [`only ${done.well} uploads went well`] : []),
    ];
  },
});

export const storageScenarios: readonly Scenario[] = [killed('storage: API killed amidst uploads', 20)];
