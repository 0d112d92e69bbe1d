import { once } from 'node:events';
import { type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { closeLostCalls } from '#domain/ai/usage/call-store.ts';
import { newId } from '#lib/ids.ts';
import { signUp } from '#bench/client.ts';
import { createDataProject } from '#bench/data/scene.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';

const callers = 16;
const betweenFaultsMs = 900;
const awayMs = 300;
const latestAnswerMs = 80;
const latestLeaveMs = 60;
/** A refused caller comes again after that long. */
const refusedMs = 100;
const minWell = 100;

const about = { id: 'chatcmpl-1', created: 1_700_000_000, model: 'gpt-4o-mini' };
const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
const whole = { ...about, choices: [{ index: 0, message: { content: 'Hello.' }, finish_reason: 'stop' }], usage };
const part = { ...about, choices: [{ index: 0, delta: { content: 'Hello.' }, finish_reason: 'stop' }], usage };

const answer = (response: ServerResponse, requested: string): void => {
  if (requested.includes('fails')) {
    response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"No."}}');
  } else if (requested.includes('"stream":true')) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`data: ${JSON.stringify(part)}\n\ndata: [DONE]\n\n`);
  } else {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole));
  }
};

/** A provider that answers sooner or later, and remembers who asked. */
const openProvider = async () => {
  const requested = new Set<string>();
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => (text += chunk));
    request.on('error', () => undefined);
    request.on('end', () => {
      const [id] = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(text) ?? [];
      if (id !== undefined) requested.add(id);
      setTimeout(() => answer(response, text), Math.random() * latestAnswerMs);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requested,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

/** An API that is killed and started again, with a project that has a key for the provider. */
const openSite = async (scene: Scene, providerUrl: string) => {
  const own = { PLINTH_LOCAL: 'on', PLINTH_RATE_LIMITS: 'off', PLINTH_EGRESS_ALLOW: '127.0.0.0/8', DRAIN_MS: '3000' };
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
  const user = await signUp(url);
  const project = await createDataProject(url, user);
  const saved = await fetch(`${url}/projects/${project.id}/ai/providers`, {
    method: 'POST',
    headers: user.headers,
    body: JSON.stringify({ provider: 'openai', api_key: 'sk-faults-0123456789abcdef', base_url: providerUrl }),
  });
  if (!saved.ok) throw new Error(`the provider's key answered ${saved.status}: ${await saved.text()}`);
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    api.signal(signal);
    await api.end;
  };
  return {
    url,
    project,
    end,
    start: async () => {
      api = await startApi(port);
    },
  };
};

type Site = Awaited<ReturnType<typeof openSite>>;

/** @returns the status that the client saw; null: none, since it left or the API was gone */
const callOnce = async ({ url, project }: Site, id: string): Promise<number | null> => {
  const options = Math.random();
  const leaves = Math.random() < 0.25 ? AbortSignal.timeout(Math.ceil(Math.random() * latestLeaveMs)) : null;
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${project.key}`, 'x-request-id': id },
      body: JSON.stringify({
        model: 'gpt-4o-mini',
        messages: [{ role: 'user', content: `${options < 0.1 ? 'fails' : 'says'} ${id}` }],
        ...(options > 0.5 && { stream: true }),
      }),
      signal: leaves,
    });
    const { status } = response;
    await response.text().catch(() => undefined);
    if (status === 503) await pause(refusedMs);
    return status;
  } catch {
    if (!leaves?.aborted) await pause(refusedMs);
    return null;
  }
};

/** Calls, some at a time, until it is stopped. */
const startCalls = (site: Site) => {
  const seen = new Map<string, number | null>();
  let isOver = false;
  const work = async (): Promise<void> => {
    while (!isOver) {
      const id = newId();
      seen.set(id, null);
      seen.set(id, await callOnce(site, id));
    }
  };
  const working = Promise.all(Array.from({ length: callers }, work));
  return {
    stop: async (): Promise<ReadonlyMap<string, number | null>> => {
      isOver = true;
      await working;
      return seen;
    },
  };
};

/** The API goes, Postgres goes, or both: then nobody is left who knows what was not written. */
const blows = ['postgres', 'api', 'both'] as const;

const strike = async (scene: Scene, site: Site, blow: (typeof blows)[number]): Promise<void> => {
  const { postgres } = scene.stage.servers;
  if (blow !== 'api') await postgres.end('SIGQUIT');
  if (blow !== 'api') await pause(awayMs);
  if (blow !== 'postgres') await site.end('SIGKILL');
  if (blow !== 'api') await postgres.start();
  if (blow !== 'postgres') await site.start();
};

const strikeAll = async (scene: Scene, site: Site, faults: number): Promise<void> => {
  for (let n = 0; n < faults; n += 1) {
    await pause(betweenFaultsMs * (0.5 + Math.random()));
    await strike(scene, site, blows[n % blows.length] ?? 'both');
  }
};

interface Row {
  readonly request_id: string;
  readonly status: string;
}

/** The calls of processes that are gone are given up. */
const rowsAfterSweep = async ({ db }: Scene): Promise<readonly Row[]> => {
  await db.query(`update ai_call_heartbeats set seen_at = now() - interval '1 hour'`);
  while ((await closeLostCalls(db, 1000)) > 0);
  return db.query<Row>('select request_id, status from ai_calls');
};

/** Well or not; 503 says that the call could not be recorded. */
const isAnswered = (status: number | null | undefined): boolean => typeof status === 'number' && status !== 503;

const findings = (
  seen: ReadonlyMap<string, number | null>,
  requested: ReadonlySet<string>,
  rows: readonly Row[],
): string[] => {
  const byCall = Map.groupBy(rows, (row) => row.request_id);
  const twice = [...byCall.values()].filter((found) => found.length > 1).length;
  const open = rows.filter(({ status }) => status === 'open').length;
  const lost = [...requested].filter((id) => isAnswered(seen.get(id)) && !byCall.has(id)).length;
  const well = [...seen.values()].filter((status) => status === 200).length;
  return [
    ...(twice > 0 ? [`${twice} calls have more than one row`] : []),
    ...(open > 0 ? [`${open} calls are still open`] : []),
    ...(lost > 0 ? [`${lost} calls were answered and have no row`] : []),
    ...(well < minWell ? [`only ${well} of ${seen.size} calls went well`] : []),
  ];
};

const struck = (name: string, faults: number): Scenario => ({
  name,
  did: `${faults} times, by turns, an immediate stop of Postgres, kill -9 of the API, and both at once, while ${callers} callers chat and leave every fourth call`,
  isWitnessed: false,
  run: async (scene) => {
    const provider = await openProvider();
    try {
      const site = await openSite(scene, provider.url);
      const calls = startCalls(site);
      scene.faultBegins();
      await strikeAll(scene, site, faults);
      scene.faultIsOver();
      const seen = await calls.stop();
      scene.stage.print(`${seen.size} calls, of which ${provider.requested.size} came to the provider`);
      await site.end('SIGTERM');
      return findings(seen, provider.requested, await rowsAfterSweep(scene));
    } finally {
      provider.close();
    }
  },
});

export const modelsStruckShortly = struck('models struck shortly', 6);

export const modelScenarios: readonly Scenario[] = [struck('models struck', 30)];
