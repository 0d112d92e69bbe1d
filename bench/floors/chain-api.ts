import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { Router } from '@koa/router';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import Koa, { type Context } from 'koa';
import { Pool } from 'pg';

/**
 * The minimal chain of a call, its half in the API: a row, a BullMQ job, and the reply over Redis. Without fairness,
 * limits, sandbox, log, authentication or any promise when something fails.
 */
const prefix = process.env['BENCH_PREFIX'] ?? 'chain';
const redisUrl = process.env['REDIS_URL'] ?? '';
const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 16 });
const queue = new Queue<{ payload: unknown; replyTo: string }, void>('chain', {
  connection: new Redis(redisUrl, { maxRetriesPerRequest: null }),
  prefix,
  skipVersionCheck: true,
});

const replyTo = `${prefix}:replies:${randomUUID()}`;
const waiting = new Map<string, (result: string) => void>();
const subscriber = new Redis(redisUrl);
subscriber.on('message', (_channel: string, text: string) => {
  const { id, result } = JSON.parse(text) as { readonly id: string; readonly result: string };
  waiting.get(id)?.(result);
  waiting.delete(id);
});
await subscriber.subscribe(replyTo);

const bodyOf = async ({ req }: Context): Promise<unknown> => {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
};

const insert = { name: 'insert', text: `insert into chain_jobs (id, status, data) values ($1, 'queued', $2)` };

const answer = async (ctx: Context): Promise<void> => {
  const payload = await bodyOf(ctx);
  const id = randomUUID();
  const { promise, resolve } = Promise.withResolvers<string>();
  waiting.set(id, resolve);
  await pool.query({ ...insert, values: [id, JSON.stringify(payload)] });
  await queue.add('run', { payload, replyTo }, { jobId: id, removeOnComplete: true, removeOnFail: true });
  ctx.body = { status: 'success', result: await promise };
};

const router = new Router();
router.post('/invoke', answer);
const server = new Koa().use(router.routes()).listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
