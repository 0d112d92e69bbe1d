import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { answerParent } from '../jobs/child.ts';
import {
  type Account,
  type Answer,
  addWebhook,
  call,
  deployFunction,
  openAccount,
  runSql,
  uniqueName,
  useModels,
} from './account.ts';
import type { Slice, SlicePlan, Victim } from './shapes.ts';

/** The quiet project's client, its webhook receiver and its model server: one process, one call at a time. */
const maxMs = 10_000;
const pauseMs = 10;

const chatAnswer = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_700_000_000,
  model: 'gpt-4o-mini',
  choices: [{ index: 0, message: { role: 'assistant', content: 'word '.repeat(100) }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 12, completion_tokens: 100, total_tokens: 112 },
});

/** Resolved when the webhook of that row has come. */
const arrivals = new Map<number, () => void>();

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString();
    if (request.url === '/hook') {
      response.end('ok');
      arrivals.get((JSON.parse(body) as { data: { n: number } }).data.n)?.();
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end(chatAnswer);
  });
});

const open = async (): Promise<string> => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const requireStatus = ({ status, text }: Answer, wanted: number): void => {
  if (status !== wanted) throw new Error(`${status} ${text.slice(0, 300)}`);
};

type Calls = Readonly<Record<Victim, (signal: AbortSignal) => Promise<void>>>;

let rows = 0;

const insertAndReceive = async ({ url, keyHeaders: headers }: Account, signal: AbortSignal): Promise<void> => {
  const n = (rows += 1);
  const arrived = Promise.withResolvers<void>();
  const late = (): void => arrived.reject(new Error('the webhook has not come in 10 s'));
  arrivals.set(n, arrived.resolve);
  signal.addEventListener('abort', late, { once: true });
  // Awaited below; an insert that fails must not leave it unhandled.
  arrived.promise.catch(() => undefined);
  try {
    requireStatus(await call(url, { path: '/v1/rest/heard', headers, body: JSON.stringify({ n }), signal }), 201);
    await arrived.promise;
  } finally {
    arrivals.delete(n);
    signal.removeEventListener('abort', late);
  }
};

const callsOf = (account: Account, slug: string): Calls => {
  const { url, email, password, headers, keyHeaders } = account;
  const chat = JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Say a hundred words.' }] });
  const login = JSON.stringify({ email, password });
  const expect = async (wanted: number, of: Parameters<typeof call>[1]): Promise<void> =>
    requireStatus(await call(url, of), wanted);
  return {
    read: (signal) => expect(200, { method: 'GET', path: '/v1/rest/items?id=eq.50', headers: keyHeaders, signal }),
    webhook: (signal) => insertAndReceive(account, signal),
    invoke: (signal) => expect(200, { path: `/api/functions/${slug}`, headers: keyHeaders, body: '{}', signal }),
    chat: (signal) => expect(200, { path: '/v1/chat/completions', headers: keyHeaders, body: chat, signal }),
    create: (signal) => {
      const name = uniqueName();
      const body = JSON.stringify({ name, slug: name, plan: 'pro' });
      return expect(201, { path: '/projects', headers, body, signal });
    },
    'sign-in': (signal) => expect(200, { path: '/auth/login', body: login, signal }),
  };
};

let calls: Calls | undefined;

const prepare = async (url: string): Promise<void> => {
  const [own, account] = await Promise.all([open(), openAccount(url, 'pro')]);
  await runSql(
    account,
    'create table items (id bigint primary key, name text not null)',
    `insert into items select n, 'item number ' || n from generate_series(1, 1000) n`,
    'create table heard (n bigint primary key)',
  );
  await addWebhook(account, `${own}/hook`, ['table.heard.INSERT']);
  await useModels(account, `${own}/v1`);
  const { slug } = await deployFunction(account, account.projectId, 'export const handler = () => null;');
  calls = callsOf(account, slug);
};

const measure = async ({ victim, seconds }: SlicePlan): Promise<Slice> => {
  if (calls === undefined) throw new Error('the victim is not prepared');
  const latencies: number[] = [];
  let errors = 0;
  let firstError: string | null = null;
  const until = performance.now() + seconds * 1000;
  do {
    const began = performance.now();
    try {
      await calls[victim](AbortSignal.timeout(maxMs));
      latencies.push(performance.now() - began);
    } catch (error) {
      errors += 1;
      firstError ??= error instanceof Error ? error.message : String(error);
    }
    await delay(pauseMs);
  } while (performance.now() < until);
  return { latencies, errors, firstError };
};

answerParent({ prepare, measure });
