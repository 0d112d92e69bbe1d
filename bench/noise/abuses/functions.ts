import { callOk, createProject, deployFunction } from '../account.ts';
import { type Abuse, type Ground, countOf, effectOf, keepStriking, note, strike, striking, until } from '../ground.ts';

const wanted = 10_000;
const floodCallers = 32;
/** How long who floods waits after 429: the queue is full, and only what has run makes room. */
const fullPauseMs = 1000;
const patient = 'export const handler = () => new Promise((resolve) => setTimeout(resolve, 1000, null));';

const invocationOf = (slug: string, key: string) => ({
  path: `/api/functions/${slug}`,
  headers: { apikey: key, prefer: 'respond-async' },
  body: '{}',
});

const isFull = (ground: Ground): boolean =>
  countOf(ground, 'answered 202') >= wanted || countOf(ground, 'answered 429') > 0;

const waitingJobs = async ({ account: { url, headers, projectId } }: Ground): Promise<number> => {
  const path = `/projects/${projectId}/jobs?status=queued&limit=1`;
  return (await callOk<{ total: number }>(url, { method: 'GET', path, headers })).total;
};

/** 10,000 jobs of one second wait, of which five run at a time; what ends is replaced. */
export const queueFlood: Abuse = async (ground) => {
  const { account, keys, signal } = ground;
  const { slug } = await deployFunction(account, account.projectId, patient);
  return {
    begin: async () => {
      keepStriking(ground, floodCallers, () => invocationOf(slug, keys[0] ?? ''), fullPauseMs);
      await until(() => isFull(ground), signal);
    },
    effect: async () => effectOf(ground, { waiting: wanted / 10 }, { waiting: await waitingJobs(ground) }),
  };
};

/** Twice as many callers as the plan runs at a time: each run spins until its time-out. */
export const cpuLoops: Abuse = async (ground) => {
  const { account, keys } = ground;
  const code = 'export const handler = () => { for (;;); };';
  const { slug } = await deployFunction(account, account.projectId, code, { timeout_ms: 5000 });
  const key = keys[0] ?? '';
  return striking(ground, 10, () => ({ path: `/api/functions/${slug}`, headers: { apikey: key }, body: '{}' }));
};

/** Five callers of a function that logs a hundred thousand lines of one character. */
export const logFlood: Abuse = async (ground) => {
  const { account, keys } = ground;
  const code = `export const handler = () => { for (let n = 0; n < 100000; n += 1) console.log('x'); };`;
  const { slug } = await deployFunction(account, account.projectId, code);
  const key = keys[0] ?? '';
  return striking(ground, 5, () => ({ path: `/api/functions/${slug}`, headers: { apikey: key }, body: '{}' }));
};

const codeOf = (number: number): string =>
  `export const handler = () => ${number};\n${Array.from(
    { length: 7000 },
    (_, n) =>
      `export const made${n} = (list) => { const own = list.map((x) => x * ${n + number}); return own.filter(Boolean).length; };`,
  ).join('\n')}`;

/** Four callers deploy 800 KB of code that nobody has compiled yet, as often as they are let. */
export const compileFlood: Abuse = async (ground) => {
  const { headers, projectId } = ground.account;
  const { id } = await deployFunction(ground.account, projectId, codeOf(0));
  let deployed = 0;
  return striking(ground, 4, () => ({
    method: 'PATCH',
    path: `/projects/${projectId}/functions/${id}`,
    headers,
    body: JSON.stringify({ code: codeOf((deployed += 1)) }),
  }));
};

const maxFloodMs = 8000;

interface Flooded {
  readonly id: string;
  readonly accepted: number;
}

/**
 * A project of the same account with 10,000 waiting jobs, or as many as it took until it was full or 8 s had passed.
 */
const flooded = async (ground: Ground): Promise<Flooded> => {
  const { account, signal } = ground;
  const { id, api_key: key } = await createProject(account.url, account.headers, 'free');
  const { slug } = await deployFunction(account, id, patient);
  const end = performance.now() + maxFloodMs;
  let [sent, accepted, over] = [0, 0, false];
  const caller = async (): Promise<void> => {
    while (!over && !signal.aborted && sent < wanted && performance.now() < end) {
      sent += 1;
      const answer = await strike(ground, invocationOf(slug, key));
      if (answer?.status === 202) accepted += 1;
      over = answer?.status === 429;
    }
  };
  await Promise.all(Array.from({ length: floodCallers }, caller));
  return { id, accepted };
};

/** Projects are flooded with 10,000 jobs and deleted, one after the other. */
export const deletedFlood: Abuse = async (ground) => {
  const { account, signal, tally } = ground;
  const cycle = async (): Promise<void> => {
    const { id, accepted } = await flooded(ground);
    tally.set('jobs of deleted projects', countOf(ground, 'jobs of deleted projects') + accepted);
    note(ground, 'floods');
    await strike(ground, { method: 'DELETE', path: `/projects/${id}`, headers: account.headers });
  };
  return {
    begin: async () => {
      const all = async (): Promise<void> => {
        while (!signal.aborted) await cycle().catch(() => note(ground, 'failed cycles'));
      };
      void all();
      await until(() => countOf(ground, 'floods') > 0, signal);
    },
    effect: async () => effectOf(ground, { 'jobs of deleted projects': wanted / 10 }),
  };
};
