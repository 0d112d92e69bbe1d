import { once } from 'node:events';
import { type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { callOk, useModels } from '../account.ts';
import { type Abuse, type Ground, note, striking } from '../ground.ts';

const mb = 1_000_000;
const answerBytes = 31 * mb;

type Serve = (response: ServerResponse, path: string, body: string) => void;

/** A model server of the abuser's own; the project asks it from now on. */
const serveModels = async (ground: Ground, serve: Serve): Promise<void> => {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      note(ground, 'model answers begun');
      serve(response, request.url ?? '', Buffer.concat(chunks).toString());
    });
    request.on('error', () => undefined);
    response.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ground.signal.addEventListener('abort', () => server.closeAllConnections());
  await useModels(ground.account, `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
};

const json = { 'content-type': 'application/json' } as const;

const chatWith = (ground: Ground, caller: number, stream: boolean) => ({
  path: '/v1/chat/completions',
  headers: { apikey: ground.keys[caller % ground.keys.length] ?? '' },
  body: JSON.stringify({ model: 'gpt-4o-mini', stream, messages: [{ role: 'user', content: 'Say a hundred words.' }] }),
});

const callers = 10;

/** Ten callers whose model answers 31 MB of empty objects. */
export const giantAnswers: Abuse = async (ground) => {
  const answer = Buffer.from(`{"z":[${'{},'.repeat(answerBytes / 3)}{}]}`);
  await serveModels(ground, (response) => {
    response.writeHead(200, { ...json, 'content-length': answer.length }).end(answer);
  });
  return striking(ground, callers, (caller) => chatWith(ground, caller, false));
};

const objects = Buffer.from('{},'.repeat(20_000));
const line = Buffer.alloc(60_000, 'x');
const word = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n`;
const words = Buffer.from(word.repeat(400));

/** Writes the same piece for as long as somebody takes it. */
const goOn = (response: ServerResponse, piece: Buffer): void => {
  const write = (): void => {
    while (!response.destroyed && response.write(piece));
  };
  response.on('drain', write);
  write();
};

const endless: readonly { readonly stream: boolean; readonly begin: (response: ServerResponse) => void }[] = [
  {
    stream: false,
    begin: (response) => {
      response.writeHead(200, json).write('{"z":[');
      goOn(response, objects);
    },
  },
  {
    stream: true,
    begin: (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: ');
      goOn(response, line);
    },
  },
  {
    stream: true,
    begin: (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      goOn(response, words);
    },
  },
];

/** Ten callers whose model never ends: a list of objects, a line of an event stream, words at full speed. */
export const endlessAnswers: Abuse = async (ground) => {
  let [plain, streams] = [0, 0];
  await serveModels(ground, (response, _path, body) => {
    const isStream = body.includes('"stream":true');
    const number = isStream ? (streams += 1) : (plain += 1);
    const kinds = endless.filter(({ stream }) => stream === isStream);
    kinds[number % kinds.length]?.begin(response);
  });
  return striking(ground, callers, (caller) =>
    chatWith(ground, caller, endless[caller % endless.length]?.stream ?? false),
  );
};

const documents = 1000;
const dimensions = 384;

const vector = (): string =>
  JSON.stringify(Array.from({ length: dimensions }, () => Number((Math.random() - 0.5).toFixed(4))));

/** As many vectors as there are texts in the request: the platform asks in portions of its own. */
const embeddingsFor = (vectors: readonly string[], body: string, from: number): string => {
  const { input } = JSON.parse(body) as { input: readonly string[] };
  const data = input.map((_, index) => {
    const embedding = vectors[(from + index) % vectors.length];
    return `{"object":"embedding","index":${index},"embedding":${embedding}}`;
  });
  const usage = '{"prompt_tokens":1,"total_tokens":1}';
  return `{"object":"list","model":"text-embedding-3-small","data":[${data.join(',')}],"usage":${usage}}`;
};

/** Four callers upsert 1,000 documents at a time, which replace earlier ones: 5,000 in all. */
export const vectorUpserts: Abuse = async (ground) => {
  const { account } = ground;
  const vectors = Array.from({ length: 5000 }, vector);
  let answered = 0;
  await serveModels(ground, (response, _path, body) => {
    response.writeHead(200, json).end(embeddingsFor(vectors, body, (answered += 1) * 977));
  });
  const path = `/projects/${account.projectId}/ai/vectors/collections`;
  await callOk(account.url, { path, headers: account.headers, json: { name: 'noisy', dimensions } });
  let sent = 0;
  const body = (): string => {
    const from = (sent += 1) * documents;
    const batch = Array.from({ length: documents }, (_, n) => ({
      id: `d${(from + n) % 5000}`,
      content: `text ${from + n}`,
    }));
    return JSON.stringify({ model: 'text-embedding-3-small', documents: batch });
  };
  return striking(ground, 4, () => ({ path: `${path}/noisy/upsert`, headers: account.headers, body: body() }));
};
