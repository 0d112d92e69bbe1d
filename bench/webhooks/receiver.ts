import { once } from 'node:events';
import { type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerParent, sharedNow } from '../jobs/child.ts';

/** Receives deliveries, and notes how long each was on its way. Some of its paths are hostile. */
let received = 0;
let latencies: number[] = [];
let wanted: { readonly count: number; readonly resolve: (at: number) => void } | null = null;

const note = (body: string): void => {
  received += 1;
  const at = /"timestamp":"([^"]+)"/.exec(body)?.[1];
  if (at !== undefined) latencies.push(Date.now() - Date.parse(at));
  if (wanted !== null && received >= wanted.count) wanted.resolve(sharedNow());
};

const drip = (response: ServerResponse): void => {
  response.writeHead(200);
  const timer = setInterval(() => response.write('.'), 1000);
  response.on('close', () => clearInterval(timer));
};

const hostile: Readonly<Record<string, (response: ServerResponse) => void>> = {
  '/hang': () => undefined,
  '/drip': drip,
  '/reset': (response) => response.socket?.resetAndDestroy(),
  '/fail': (response) => void response.writeHead(500).end(),
  '/away': (response) => void response.writeHead(301, { Location: 'http://127.0.0.1:1/' }).end(),
};

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('error', () => undefined);
  request.on('end', () => {
    const answer = hostile[request.url ?? ''];
    if (answer !== undefined) return answer(response);
    response.writeHead(200, { 'Content-Length': 2 }).end('ok');
    note(Buffer.concat(chunks).toString());
  });
});

answerParent({
  open: async (): Promise<string> => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  },
  count: async (): Promise<number> => received,
  /** Resolves when so many have come since the start, with the time. */
  received: (count: number): Promise<number> => {
    if (received >= count) return Promise.resolve(sharedNow());
    return new Promise((resolve) => (wanted = { count, resolve }));
  },
  /** From the event to its arrival, in ms, of those that came since the last question. */
  latencies: async (): Promise<number[]> => {
    const taken = latencies;
    latencies = [];
    return taken;
  },
});
