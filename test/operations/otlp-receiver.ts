import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: number };
}

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: readonly Attribute[];
  readonly status: { readonly code: number; readonly message?: string };
}

interface Sent {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[];
  }[];
}

/** A span as it was received. */
export interface ReceivedSpan extends Omit<SentSpan, 'attributes' | 'status'> {
  readonly service: string;
  readonly attributes: Readonly<Record<string, string | number | undefined>>;
  readonly error: string | null;
}

/** A receiver of OTLP/HTTP with JSON: what a collector is to the processes that trace. */
export interface OtlpReceiver {
  readonly endpoint: string;
  readonly spans: readonly ReceivedSpan[];
  /** From now on every delivery is answered with that status. */
  readonly answer: (status: number) => void;
  readonly close: () => void;
}

const valuesOf = (attributes: readonly Attribute[]): Record<string, string | number | undefined> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]));

const failed = 2;

const received = ({ resourceSpans }: Sent): ReceivedSpan[] =>
  resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ attributes, status, ...span }) => ({
        ...span,
        service: String(valuesOf(resource.attributes)['service.name']),
        attributes: valuesOf(attributes),
        error: status.code === failed ? (status.message ?? '') : null,
      })),
    ),
  );

export const startOtlpReceiver = async (): Promise<OtlpReceiver> => {
  const spans: ReceivedSpan[] = [];
  let status = 200;
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const sent = (await json(request)) as Sent;
    if (request.url === '/v1/traces' && status === 200) spans.push(...received(sent));
    response.writeHead(request.url === '/v1/traces' ? status : 404, { 'Content-Type': 'application/json' }).end('{}');
  };
  const server = createServer((request, response) => void receive(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    answer: (next) => {
      status = next;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
