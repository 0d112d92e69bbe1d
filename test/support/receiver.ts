import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ExecutionContext } from 'ava';
import { until } from './until.ts';

/** A request as the receiver got it. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** As it came: what is signed. */
  readonly body: Buffer;
}

export type Respond = (response: ServerResponse, received: Received) => void;

/** A receiver of webhooks that answers as a test says. */
export interface Receiver {
  readonly url: string;
  readonly received: readonly Received[];
  /** Resolves with the requests once there are so many. */
  readonly when: (count: number) => Promise<readonly Received[]>;
  /** How many requests are unanswered. */
  readonly open: () => number;
  /** From now on requests are answered so; 200 until then. */
  readonly answer: (respond: Respond) => void;
  readonly close: () => void;
}

/** A plain answer. */
export const withStatus =
  (status: number, headers: Readonly<Record<string, string>> = {}, body = ''): Respond =>
  (response) => {
    response.writeHead(status, headers);
    response.end(body);
  };

const bodyOf = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
};

const openReceiver = async (): Promise<Receiver> => {
  const received: Received[] = [];
  let respond = withStatus(200);
  let open = 0;
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    open += 1;
    response.on('close', () => (open -= 1));
    const one = { path: request.url ?? '', headers: request.headers, body: await bodyOf(request) };
    received.push(one);
    respond(response, one);
  };
  const server = createServer((request, response) => void take(request, response).catch(() => undefined));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    when: (count) => until(() => received.length >= count && received),
    open: () => open,
    answer: (next) => {
      respond = next;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

/** A receiver of one test, gone with it. */
export const receiverFor = async (t: ExecutionContext): Promise<Receiver> => {
  const receiver = await openReceiver();
  t.teardown(receiver.close);
  return receiver;
};
