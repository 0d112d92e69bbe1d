import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as breathe, setTimeout as delay } from 'node:timers/promises';

/**
 * A provider on loopback in OpenAI's dialect, as thin as can be: below `/slow/v1` the first byte comes after 20 ms,
 * below
 * `/fast/v1` at once. A stream has 100 tokens, a write each. One that is asked for with `endless` goes on until its
 * client leaves; `/closed` tells when that was.
 */
const slowMs = 20;
const tokens = 100;

const usage = { prompt_tokens: 12, completion_tokens: tokens, total_tokens: 12 + tokens };
const about = { id: 'chatcmpl-1', created: 1_700_000_000, model: 'gpt-4o-mini' };

const whole = JSON.stringify({
  ...about,
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'word '.repeat(tokens) }, finish_reason: 'stop' }],
  usage,
});

const chunk = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({
    ...about,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason: finish }],
  })}\n\n`;

const first = chunk({ role: 'assistant', content: '' });
const word = chunk({ content: 'word ' });
const last = `${chunk({}, 'stop')}data: ${JSON.stringify({ ...about, object: 'chat.completion.chunk', choices: [], usage })}\n\ndata: [DONE]\n\n`;

const models = JSON.stringify({ object: 'list', data: [{ id: 'gpt-4o-mini', object: 'model', owned_by: 'bench' }] });

/** When connections of endless streams closed, in ms since the epoch, by what their request said. */
const closed = new Map<string, number>();

const now = (): number => performance.timeOrigin + performance.now();

const textOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const part of request) chunks.push(part as Buffer);
  return Buffer.concat(chunks).toString();
};

const json = (response: ServerResponse, body: string): void => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
};

const stream = async (response: ServerResponse, endless: string | undefined): Promise<void> => {
  if (endless !== undefined) response.once('close', () => closed.set(endless, now()));
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(first);
  for (let sent = 0; (endless !== undefined || sent < tokens) && !response.destroyed; sent += 1) {
    response.write(word);
    await (endless === undefined ? breathe() : delay(5));
  }
  response.end(last);
};

const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const { url = '' } = request;
  const body = await textOf(request);
  if (url === '/closed') return json(response, JSON.stringify(Object.fromEntries(closed)));
  if (url.endsWith('/models')) return json(response, models);
  if (url.startsWith('/slow')) await delay(slowMs);
  if (!body.includes('"stream":true')) return json(response, whole);
  await stream(response, /endless-\d+/.exec(body)?.[0]);
};

const server = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy());
}).listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
