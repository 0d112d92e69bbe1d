import { createProject, deploy, signUp } from '#bench/client.ts';
import { provideBubblewrap } from '#scripts/infra/bubblewrap.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import { amidst } from './load.ts';
import type { Scenario } from './scenario.ts';

/** The platform as `npm start` runs it: one API, two workers, a project with a function that takes 1.2 s. */
interface Site {
  readonly api: Child;
  readonly restart: (signal: NodeJS.Signals) => Promise<void>;
  /** Calls the function and waits for it; null when no answer came. */
  readonly call: (options?: CallOptions) => Promise<Response | null>;
}

interface CallOptions {
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
}

const slowFunction = 'exports.handler = (n) => new Promise((resolve) => setTimeout(resolve, 1200, n))';

const environmentFor = async ({ stage }: Scene): Promise<NodeJS.ProcessEnv> => {
  const bubblewrap = await provideBubblewrap(stage.surroundings.site);
  const path = bubblewrap.found ? bubblewrap.path : null;
  return { PLINTH_LOCAL: 'on', PLINTH_RATE_LIMITS: 'off', PORT: '0', ...(path !== null && { PLINTH_BWRAP: path }) };
};

const openSite = async (scene: Scene): Promise<Site> => {
  const own = await environmentFor(scene);
  const startApi = (name: string, port: string): Child =>
    scene.start(name, 'api/server.ts', { ...own, PORT: port, DRAIN_MS: '5000' });
  let api = startApi('api-1', '0');
  const workers = ['one', 'two'].map((name) => scene.start(`real-worker-${name}`, 'workers/server.ts', own));
  await Promise.all([api, ...workers].map((child) => child.ready));
  const port = String(api.port());
  const url = `http://127.0.0.1:${port}`;
  const user = await signUp(url);
  const project = await createProject(url, user);
  const fn = await deploy(url, user, project, slowFunction);
  return {
    api,
    restart: async (signal) => {
      api.signal(signal);
      await api.end;
      api = startApi('api-2', port);
      await api.ready;
    },
    call: ({ signal, headers } = {}) =>
      fetch(`${url}/projects/${project}/functions/${fn}/invoke`, {
        method: 'POST',
        headers: { ...user.headers, ...headers },
        body: '{"payload":7}',
        ...(signal && { signal }),
      }).catch(() => null),
  };
};

const callers = 16;
const many = <T>(count: number, work: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, work));
const statusOf = (answer: Response | null): string => String(answer?.status ?? 'none');

const restarted = (name: string, did: string, signal: NodeJS.Signals, expected: string): Scenario => ({
  name,
  did,
  isWitnessed: false,
  run: async (scene) => {
    const site = await openSite(scene);
    const calls = many(callers, site.call);
    await amidst(600);
    scene.faultBegins();
    await site.restart(signal);
    scene.faultIsOver();
    const statuses = new Set((await calls).map(statusOf));
    const later = statusOf(await site.call());
    return [
      ...(statuses.size === 1 && statuses.has(expected) ? [] : [`the callers got ${[...statuses].join(', ')}`]),
      ...(later === '200' ? [] : [`a caller after the restart got ${later}`]),
    ];
  },
});

const disconnected: Scenario = {
  name: 'clients disconnect',
  did: `${callers} callers hang up 400 ms after they asked; their jobs run to their ends`,
  isWitnessed: false,
  run: async (scene) => {
    const site = await openSite(scene);
    scene.faultBegins();
    await many(callers, () => site.call({ signal: AbortSignal.timeout(400) }));
    scene.faultIsOver();
    const rows = await scene.db.query(`select from jobs where type = 'function.invoke'`);
    return rows.length === callers ? [] : [`${rows.length} of ${callers} were accepted`];
  },
};

const sameKey: Scenario = {
  name: 'the same idempotency key 50 times',
  did: '50 requests with one Idempotency-Key at once, and 5 more with it afterwards',
  isWitnessed: false,
  run: async (scene) => {
    const site = await openSite(scene);
    scene.faultBegins();
    const headers = { 'Idempotency-Key': 'the-same-one' };
    const answers = [
      ...(await many(50, () => site.call({ headers }))),
      ...(await many(5, () => site.call({ headers }))),
    ];
    scene.faultIsOver();
    const statuses = new Set(answers.map(statusOf));
    const texts = new Set(await Promise.all(answers.map(async (answer) => answer?.text())));
    const rows = await scene.db.query(`select from jobs where type = 'function.invoke'`);
    return [
      ...(statuses.size === 1 && statuses.has('200') ? [] : [`the answers are ${[...statuses].join(', ')}`]),
      ...(texts.size === 1 ? [] : [`there are ${texts.size} different answers`]),
      ...(rows.length === 1 ? [] : [`the function ran ${rows.length} times`]),
    ];
  },
};

export const apiScenarios: readonly Scenario[] = [
  restarted(
    'API restarted while callers wait',
    `SIGTERM of the API while ${callers} callers wait, started again on its port: all get their answers`,
    'SIGTERM',
    '200',
  ),
  restarted(
    'API killed while callers wait',
    `kill -9 of the API while ${callers} callers wait, started again on its port: their jobs run to their ends`,
    'SIGKILL',
    'none',
  ),
  disconnected,
  sameKey,
];
