import { setTimeout as pause } from 'node:timers/promises';
import { signUp } from '#bench/client.ts';
import { createDataProject } from '#bench/data/scene.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';

const readers = 4;
const rounds = 3;
const betweenFaultsMs = 1500;
const awayMs = 300;
/** A refused caller comes again after that long. */
const refusedMs = 200;
const minWhole = 5;
const minBroken = 5;
const partBytes = 1000;
/** One reader in so many leaves in the middle. */
const leavesOneIn = 8;

/** So many numbered parts, some 5 ms apart. */
const streaming = `export const handler = (_, { request }) => {
  const parts = Number(request.query.get('parts'));
  let n = 0;
  return new Response(new ReadableStream({
    async pull(controller) {
      if (n === parts) return controller.close();
      await new Promise((resolve) => setTimeout(resolve, 5));
      controller.enqueue(new TextEncoder().encode(String(n++).padStart(${partBytes})));
    },
  }));
}`;

const killed = async (child: Child): Promise<void> => {
  child.signal('SIGKILL');
  await child.end;
};

/** An API and a worker that are killed and started again, with a function that streams. */
const openSite = async (scene: Scene) => {
  const own = { PLINTH_LOCAL: 'on', PLINTH_RATE_LIMITS: 'off', SANDBOX: 'best-effort', DRAIN_MS: '3000' };
  let born = 0;
  const start = async (file: string, port: string): Promise<Child> => {
    born += 1;
    const child = scene.start(`process-${born}`, file, { ...own, PORT: port });
    await child.ready;
    return child;
  };
  let [worker, api] = [await start('workers/server.ts', '0'), await start('api/server.ts', '0')];
  const port = String(api.port());
  const url = `http://127.0.0.1:${port}`;
  const user = await signUp(url);
  const project = await createDataProject(url, user);
  const made = await fetch(`${url}/projects/${project.id}/functions`, {
    method: 'POST',
    headers: { ...user.headers },
    body: JSON.stringify({ name: 'stream', language: 'javascript', code: streaming, timeout_ms: 60_000 }),
  });
  if (made.status !== 201) throw new Error(await made.text());
  return {
    url: `${url}/api/functions/stream`,
    headers: { apikey: project.key },
    faults: {
      worker: async () => {
        await killed(worker);
        worker = await start('workers/server.ts', '0');
      },
      api: async () => {
        await killed(api);
        api = await start('api/server.ts', port);
      },
      redis: async () => {
        const { redis } = scene.stage.servers;
        await redis.end('SIGKILL');
        await pause(awayMs);
        await redis.start();
      },
      postgres: async () => {
        const { postgres } = scene.stage.servers;
        await postgres.end('SIGKILL');
        await pause(awayMs);
        await postgres.start();
      },
    },
  };
};
type Site = Awaited<ReturnType<typeof openSite>>;

interface Read {
  readonly id: string;
  readonly parts: number;
  /** The connection ended as that of a whole answer does. */
  readonly isWhole: boolean;
  readonly hasLeft: boolean;
  readonly text: string;
}

/** Reads one answer; null: it did not begin. */
const read = async ({ url, headers }: Site): Promise<Read | null> => {
  const parts = 20 + Math.floor(Math.random() * 180);
  const leavesAt = Math.random() < 1 / leavesOneIn ? Math.random() * parts * partBytes : Number.POSITIVE_INFINITY;
  const aborter = new AbortController();
  const answer = await fetch(`${url}?parts=${parts}`, { headers, signal: aborter.signal }).catch(() => null);
  if (answer?.status !== 200) return null;
  let text = '';
  const result = (isWhole: boolean): Read => ({
    id: answer.headers.get('x-invocation-id') ?? '',
    parts,
    isWhole,
    hasLeft: aborter.signal.aborted,
    text,
  });
  try {
    for await (const chunk of answer.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      if (text.length >= leavesAt) aborter.abort();
    }
    return result(!aborter.signal.aborted);
  } catch {
    return result(false);
  }
};

const startReaders = (site: Site) => {
  const all: Read[] = [];
  let isOver = false;
  const readOn = async (): Promise<void> => {
    while (!isOver) {
      const one = await read(site);
      if (one === null) await pause(refusedMs);
      else all.push(one);
    }
  };
  const running = Promise.all(Array.from({ length: readers }, readOn));
  return {
    stop: async (): Promise<readonly Read[]> => {
      isOver = true;
      await running;
      return all;
    },
  };
};

const expectedOf = (parts: number): string =>
  Array.from({ length: parts }, (_, n) => String(n).padStart(partBytes)).join('');

const wrongBytes = ({ id, parts, isWhole, text }: Read): string[] => {
  const expected = expectedOf(parts);
  if (isWhole && text !== expected) return [`${id} looks whole, with ${text.length} of ${expected.length} bytes`];
  return expected.startsWith(text) ? [] : [`${id} has bytes that were not sent in that place`];
};

interface Ended {
  readonly id: string;
  readonly status: string;
  readonly error: string | null;
}

/** A run that ended well may have been cut off behind its end; every other one says why. */
const wrongRecord = ({ id, isWhole }: Read, ended: Ended | undefined): string[] => {
  if (ended === undefined) return [`${id} has no record`];
  if (isWhole && ended.status !== 'success') return [`${id} came whole and is recorded as ${ended.status}`];
  return ended.status !== 'success' && ended.error === null ? [`${id} does not say why it is ${ended.status}`] : [];
};

const recordsWithin = async (scene: Scene, ids: readonly string[], tries: number): Promise<Map<string, Ended>> => {
  const rows = await scene.db.query<Ended>('select id, status, error from invocations where id = any($1::uuid[])', [
    ids,
  ]);
  if (rows.length === ids.length || tries === 0) return new Map(rows.map((row) => [row.id, row]));
  await pause(1000);
  return recordsWithin(scene, ids, tries - 1);
};

const maxWaitSeconds = 60;

export const streamScenarios: readonly Scenario[] = [
  {
    name: 'streams',
    did: `${rounds} times kill -9 of worker, Redis, API and Postgres at random moments, while ${readers} clients read streamed answers and one in ${leavesOneIn} leaves: an answer is whole or its connection breaks, and its invocation says why`,
    isWitnessed: false,
    run: async (scene) => {
      const site = await openSite(scene);
      const reading = startReaders(site);
      await pause(betweenFaultsMs);
      scene.faultBegins();
      for (let round = 0; round < rounds; round += 1) {
        for (const fault of Object.values(site.faults)) {
          await pause(Math.random() * betweenFaultsMs);
          await fault();
        }
      }
      scene.faultIsOver();
      await pause(betweenFaultsMs * 2);
      const reads = await reading.stop();
      const records = await recordsWithin(
        scene,
        reads.map(({ id }) => id),
        maxWaitSeconds,
      );
      const [whole, broken] = [reads.filter(({ isWhole }) => isWhole), reads.filter(({ isWhole }) => !isWhole)];
      const left = broken.filter(({ hasLeft }) => hasLeft).length;
      const counts = Map.groupBy(broken, ({ id }) => records.get(id)?.status ?? 'none');
      const ends = [...counts].map(([status, { length }]) => `${length} ${status}`).join(', ');
      scene.stage.print(`  ${whole.length} answers came whole, ${broken.length} broke (${left} left): ${ends}`);
      return [
        ...reads.flatMap(wrongBytes),
        ...reads.flatMap((one) => wrongRecord(one, records.get(one.id))),
        ...(whole.length < minWhole ? [`only ${whole.length} answers came whole`] : []),
        ...(broken.length < minBroken ? [`only ${broken.length} answers broke`] : []),
      ];
    },
  },
];
