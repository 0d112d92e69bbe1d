import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { newId } from '#lib/ids.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';

/** A receiver that takes everything, a little slowly, so that deliveries are cut off in the middle. */
export interface Receiver {
  readonly url: string;
  /** By `webhook-id`: the body of its first arrival. */
  readonly receivedIds: ReadonlyMap<string, string>;
  /** How many arrivals there were, those that came again included. */
  readonly arrivals: () => number;
  readonly close: () => void;
}

const answerAfterMs = 20;

export const openReceiver = async (): Promise<Receiver> => {
  const receivedIds = new Map<string, string>();
  let arrivals = 0;
  const server = createServer((request, response) => {
    const id = String(request.headers['webhook-id']);
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => (body += chunk));
    request.on('error', () => undefined);
    request.on('end', () => {
      arrivals += 1;
      if (!receivedIds.has(id)) receivedIds.set(id, body);
      setTimeout(() => response.end(), answerAfterMs);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    receivedIds,
    arrivals: () => arrivals,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

/** A worker of the platform, as `npm start` runs it, for these pools. */
export const startDeliverer = async (scene: Scene, pools: string): Promise<Child> => {
  const child = scene.start(`webhooks-${newId()}`, 'workers/server.ts', {
    WORKER_QUEUES: pools,
    PLINTH_EGRESS_ALLOW: '127.0.0.0/8',
  });
  await Promise.race([child.ready, child.end]);
  return child;
};

export type Victim = 'worker' | 'redis' | 'postgres';

/** Processes are killed in a random order, so that nobody can rely on it. */
export const chance = (): Victim => {
  const drawn = Math.random();
  if (drawn < 0.2) return 'redis';
  return drawn < 0.4 ? 'postgres' : 'worker';
};

const awayMs = 300;

/** Kills one of them; it is there again when this resolves. */
export const strike = async (
  scene: Scene,
  running: Child[],
  { victim, pools }: { readonly victim: Victim; readonly pools: string },
): Promise<void> => {
  if (victim === 'worker') {
    running.shift()?.signal('SIGKILL');
    running.push(await startDeliverer(scene, pools));
    return;
  }
  const server = scene.stage.servers[victim];
  await server.end(victim === 'redis' ? 'SIGKILL' : 'SIGQUIT');
  await pause(awayMs);
  await server.start();
};
