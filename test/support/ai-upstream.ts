import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import type { DialectName } from '#domain/ai/providers/providers.ts';
import { type Behaviour, behaviourOf } from './ai-upstream-behaviour.ts';
import { embeddingsBody, modelsBody, vectorOf } from './ai-upstream-lists.ts';
import { cutConnection, playStream } from './ai-upstream-play.ts';
import { type Said, wires } from './ai-upstream-wire.ts';

/** A request as the played provider got it. */
export interface UpstreamRequest {
  readonly dialect: DialectName;
  readonly method: string;
  /** After the base URL, the query included. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Parsed; null when there was none. */
  readonly body: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into bodies of every shape
  readonly kind: 'chat' | 'stream' | 'embeddings' | 'models';
  /** Empty for a list of models. */
  readonly model: string;
  /** The last user message, or the first text to embed. */
  readonly text: string;
  readonly startedAt: number;
  /** `performance.now()` of the moment in which the client closed before the answer was whole; null: it did not. */
  closedAt: number | null;
  /** Whether the whole answer went out. */
  finished: boolean;
}

/** Returns the behaviour for a request; undefined: by the words of its text, otherwise a good answer. */
type Script = (request: UpstreamRequest) => Behaviour | undefined;

export interface AiUpstream {
  readonly url: string;
  /** Base URLs, as the vendors' SDKs take them. */
  readonly openai: string;
  readonly anthropic: string;
  readonly google: string;
  readonly requests: readonly UpstreamRequest[];
  /** From now on. */
  readonly answerWith: (script: Script) => void;
  readonly close: () => void;
}

/** A key with this in it is refused. */
const refusedKey = 'wrong';
const defaultDimensions = 8;

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
};

type Json = UpstreamRequest['body'];

const partsText = (content: Json): string =>
  typeof content === 'string'
    ? content
    : ((content ?? []) as Json[]).map((part) => (typeof part.text === 'string' ? part.text : '')).join('');

const textOf = (dialect: DialectName, body: Json): string => {
  if (body === null) return '';
  if (body.requests) return partsText(body.requests[0]?.content?.parts);
  if (body.input !== undefined) return Array.isArray(body.input) ? String(body.input[0]) : String(body.input);
  const messages = (dialect === 'google' ? body.contents : body.messages) as Json[] | undefined;
  const last = messages?.findLast((message) => message.role === 'user');
  return partsText(dialect === 'google' ? last?.parts : last?.content);
};

const kindOf = (path: string, body: Json): UpstreamRequest['kind'] => {
  if (body === null) return 'models';
  if (/embed/i.test(path)) return 'embeddings';
  return body.stream === true || path.includes(':streamGenerateContent') ? 'stream' : 'chat';
};

const modelIn = (path: string, body: Json): string => body?.model ?? /\/models\/([^:?/]+)/.exec(path)?.[1] ?? '';

const readRequest = (request: IncomingMessage, text: string): UpstreamRequest => {
  const [, first = '', path = ''] = /^\/(\w+)(\/.*)$/.exec(request.url ?? '') ?? [];
  const dialect = first === 'anthropic' || first === 'google' ? first : 'openai';
  const body: Json = text === '' ? null : JSON.parse(text);
  return {
    dialect,
    method: request.method ?? '',
    path,
    headers: request.headers,
    body,
    kind: kindOf(path, body),
    model: modelIn(path, body),
    text: textOf(dialect, body),
    startedAt: performance.now(),
    closedAt: null,
    finished: false,
  };
};

const saidIn = (request: UpstreamRequest, behaviour: Behaviour): Said => {
  const text = behaviour.text ?? `You said: ${request.text}`;
  const pieces = behaviour.pieces ?? text.match(/\S+\s*/g) ?? [];
  const tools = behaviour.tools ?? [];
  return {
    model: request.model,
    pieces,
    tools,
    finish: behaviour.finish ?? (tools.length > 0 ? 'tool_calls' : 'stop'),
    usage:
      behaviour.usage === undefined ? { prompt_tokens: 11, completion_tokens: pieces.length + 1 } : behaviour.usage,
  };
};

const embeddingsOf = (request: UpstreamRequest, behaviour: Behaviour): unknown => {
  const { body, dialect } = request;
  const texts: string[] = body.requests
    ? (body.requests as Json[]).map((one) => partsText(one.content.parts))
    : [body.input].flat();
  const requested: number | undefined = body.dimensions ?? body.requests?.[0]?.outputDimensionality;
  const dimensions = requested ?? behaviour.dimensions ?? defaultDimensions;
  const vectors = behaviour.vectors ?? texts.map((text) => vectorOf(text, dimensions));
  return embeddingsBody(dialect, request.model, vectors, body.encoding_format === 'base64');
};

const answerBody = (request: UpstreamRequest, behaviour: Behaviour): unknown => {
  const wire = wires[request.dialect];
  const { status = 200, message = 'Something is wrong.', code = null } = behaviour;
  if (status !== 200) return wire.error(status, message, code);
  if (request.kind === 'embeddings') return embeddingsOf(request, behaviour);
  if (request.kind === 'chat') return wire.chat(saidIn(request, behaviour));
  const query = new URLSearchParams(request.path.split('?')[1]);
  return modelsBody(request.dialect, query.get('pageToken') ?? query.get('after_id'));
};

const play = async (request: UpstreamRequest, response: ServerResponse, behaviour: Behaviour): Promise<void> => {
  const { status = 200, headers = {}, body, delayMs, reset, silent = false } = behaviour;
  if (silent) return;
  if (delayMs !== undefined) await delay(delayMs);
  if (reset === 'before_headers') {
    cutConnection(response);
    return;
  }
  if (reset === 'after_headers') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"', () => response.socket?.destroySoon());
    return;
  }
  if (request.kind === 'stream' && status === 200 && body === undefined) {
    await playStream(response, wires[request.dialect].frames(saidIn(request, behaviour)), behaviour);
    return;
  }
  const text = body ?? JSON.stringify(answerBody(request, behaviour));
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(text);
};

const keyIn = (headers: IncomingHttpHeaders): string =>
  [headers.authorization, headers['x-api-key'], headers['x-goog-api-key']].join(' ');

/**
 * Plays providers of the three dialects on one port. What it does is chosen by a word in the last user message (the
 * words are in `ai-upstream-behaviour.ts`: `ERR503`, `CUT`, `TOOLS`, …) or by a script; otherwise it echoes the
 * message.
 */
export const startAiUpstream = async (): Promise<AiUpstream> => {
  const requests: UpstreamRequest[] = [];
  const seen = new Map<string, number>();
  let script: Script | undefined;

  const behave = (request: UpstreamRequest): Behaviour => {
    if (keyIn(request.headers).includes(refusedKey)) return behaviourOf('ERR401', 0) ?? {};
    const reported = `${request.model} ${request.text}`;
    const times = seen.get(reported) ?? 0;
    seen.set(reported, times + 1);
    return script?.(request) ?? behaviourOf(request.text, times) ?? {};
  };

  const take = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = readRequest(incoming, await bodyOf(incoming));
    requests.push(request);
    response.on('finish', () => (request.finished = true));
    response.on('close', () => {
      if (!response.writableFinished) request.closedAt = performance.now();
    });
    await play(request, response, behave(request));
  };
  const server = createServer((incoming, response) => {
    take(incoming, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    openai: `${url}/openai/v1`,
    anthropic: `${url}/anthropic`,
    google: `${url}/google`,
    requests,
    answerWith: (next) => {
      script = next;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

/** A played provider of one test, gone with it. */
export const aiUpstreamFor = async (t: ExecutionContext): Promise<AiUpstream> => {
  const upstream = await startAiUpstream();
  t.teardown(upstream.close);
  return upstream;
};
