import { setTimeout as pause } from 'node:timers/promises';
import { signUp } from '#bench/client.ts';
import { createDataProject } from '#bench/data/scene.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';

const awayMs = 300;

interface Enqueued {
  readonly job_id: string;
  readonly status: string;
}

/** A project with functions, an API and a worker. */
export interface FunctionSite {
  readonly projectId: string;
  /** The answer of a POST below the project, which must succeed. */
  readonly ask: (path: string, body: object, at?: string) => Promise<unknown>;
  readonly deploy: (name: string, code: string, fields?: object) => Promise<string>;
  /** @param at the API that is asked; left out: the first */
  readonly enqueue: (functionId: string, body: object, at?: string) => Promise<readonly Enqueued[]>;
  /** The address of another API process. */
  readonly startApi: () => Promise<string>;
  /** kill -9; what was killed is there again when it resolves. */
  readonly kill: Readonly<Record<'worker' | 'redis' | 'postgres', () => Promise<void>>>;
}

const killed = async (child: Child): Promise<void> => {
  child.signal('SIGKILL');
  await child.end;
};

export const openFunctionSite = async (scene: Scene): Promise<FunctionSite> => {
  const own = {
    PLINTH_LOCAL: 'on',
    PLINTH_RATE_LIMITS: 'off',
    SANDBOX: 'best-effort',
    PLINTH_EGRESS_ALLOW: '127.0.0.0/8',
  };
  let started = 0;
  const start = async (file: string): Promise<Child> => {
    started += 1;
    const child = scene.start(`process-${started}`, file, { ...own, PORT: '0' });
    await child.ready;
    return child;
  };
  const startApi = async (): Promise<string> => `http://127.0.0.1:${(await start('api/server.ts')).port()}`;
  let worker = await start('workers/server.ts');
  const url = await startApi();
  const user = await signUp(url);
  const project = await createDataProject(url, user);
  const ask: FunctionSite['ask'] = async (path, body, at = url) => {
    const answer = await fetch(`${at}/projects/${project.id}${path}`, {
      method: 'POST',
      headers: { ...user.headers },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  const server = async (name: 'redis' | 'postgres'): Promise<void> => {
    await scene.stage.servers[name].end('SIGKILL');
    await pause(awayMs);
    await scene.stage.servers[name].start();
  };
  return {
    projectId: project.id,
    ask,
    startApi,
    deploy: async (name, code, fields = {}) => {
      const body = { name, language: 'javascript', code, timeout_ms: 60_000, ...fields };
      return ((await ask('/functions', body)) as { id: string }).id;
    },
    enqueue: async (functionId, body, at) =>
      ((await ask(`/functions/${functionId}/jobs`, body, at)) as { jobs: readonly Enqueued[] }).jobs,
    kill: {
      worker: async () => {
        await killed(worker);
        worker = await start('workers/server.ts');
      },
      redis: () => server('redis'),
      postgres: () => server('postgres'),
    },
  };
};

export interface EndedJob {
  readonly id: string;
  readonly status: string;
  readonly error_code: string | null;
}

const ends: ReadonlySet<string> = new Set(['succeeded', 'failed', 'dead', 'cancelled', 'expired']);

/** The jobs once all of them have ended, or as they are when the time is over. */
export const untilEnded = async (
  scene: Scene,
  ids: readonly string[],
  maxWaitMs: number,
): Promise<readonly EndedJob[]> => {
  const until = performance.now() + maxWaitMs;
  for (;;) {
    const rows = await scene.db
      .query<EndedJob>('select id, status, error_code from jobs where id = any($1::uuid[])', [ids])
      .catch(() => []);
    const isOver = rows.length === ids.length && rows.every(({ status }) => ends.has(status));
    if (isOver || performance.now() > until) return rows;
    await pause(500);
  }
};

export const notSucceeded = (ended: readonly EndedJob[]): string[] =>
  ended
    .filter(({ status }) => status !== 'succeeded')
    .map(({ id, status, error_code: code }) => `${id} is ${status} (${code})`);
