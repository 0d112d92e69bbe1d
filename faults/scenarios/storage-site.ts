import { createHash, randomBytes } from 'node:crypto';
import path from 'node:path';
import { signUp } from '#bench/client.ts';
import { createDataProject } from '#bench/data/scene.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';

const pick = <T>(of: readonly T[]): T => {
  const picked = of[Math.floor(Math.random() * of.length)];
  if (picked === undefined) throw new Error('there is nothing to pick');
  return picked;
};

/** An API process at a port that it keeps when it is killed and started again. */
const startSeat = async (start: (port: string) => Promise<Child>) => {
  let api = await start('0');
  const port = String(api.port());
  return {
    url: `http://127.0.0.1:${port}`,
    kill: async () => {
      api.signal('SIGKILL');
      await api.end;
      api = await start(port);
    },
    end: async () => {
      api.signal('SIGTERM');
      await api.end;
    },
  };
};

export interface SiteOptions {
  /** API processes; each kill meets one of them. */
  readonly processes: number;
  /** Where the bytes lie; nothing for the disk. */
  readonly store: Readonly<Record<string, string>>;
}

/** APIs that are killed and started again, with a project that has files. */
export const openSite = async (scene: Scene, { processes, store }: SiteOptions) => {
  const dataDir = path.join(scene.stage.surroundings.site.dataDir, `files-${randomBytes(3).toString('hex')}`);
  const settings = { ...store, DATA_DIR: dataDir };
  const own = { PLINTH_LOCAL: 'on', PLINTH_RATE_LIMITS: 'off', DRAIN_MS: '3000', ...settings };
  let born = 0;
  const startApi = async (port: string): Promise<Child> => {
    born += 1;
    const child = scene.start(`api-${born}`, 'api/server.ts', { ...own, PORT: port });
    await child.ready;
    return child;
  };
  const worker = scene.start('worker', 'workers/server.ts', { ...own, WORKER_QUEUES: 'system' });
  const seats = [await startSeat(startApi)];
  while (seats.length < processes) seats.push(await startSeat(startApi));
  await worker.ready;
  const url = (): string => pick(seats).url;
  const project = await createDataProject(url(), await signUp(url()));
  return {
    url,
    project,
    settings,
    kill: () => pick(seats).kill(),
    end: async () => {
      await Promise.all(seats.map((seat) => seat.end()));
    },
  };
};

export type Site = Awaited<ReturnType<typeof openSite>>;

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** The bucket that the project began with. */
export const bucketOf = async ({ url, project }: Site): Promise<string> => {
  const answer = await fetch(`${url()}/storage/v1/bucket`, { headers: { apikey: project.key } });
  const [bucket] = (await answer.json()) as { id: string }[];
  if (bucket === undefined) throw new Error('the project has no bucket');
  return bucket.id;
};
