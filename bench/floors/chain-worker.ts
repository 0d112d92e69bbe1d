import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import ivm from 'isolated-vm';
import { Pool } from 'pg';

/** The minimal chain of a call, its half in the worker: a new context of one isolate, the row, and the reply. */
const prefix = process.env['BENCH_PREFIX'] ?? 'chain';
const redisUrl = process.env['REDIS_URL'] ?? '';
const slots = 16;
const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: slots });
const replies = new Redis(redisUrl);

const isolate = new ivm.Isolate({ memoryLimit: 256 });
const script = isolate.compileScriptSync('(async (payload) => JSON.stringify((() => null)(JSON.parse(payload))))');

const callHandler = async (payload: string): Promise<string> => {
  const context = isolate.createContextSync();
  const handler = script.runSync(context, { reference: true });
  try {
    return (await handler.apply(undefined, [payload], { result: { promise: true, copy: true } })) as string;
  } finally {
    handler.release();
    context.release();
  }
};

const update = { name: 'update', text: `update chain_jobs set status = 'succeeded', result = $2 where id = $1` };

interface Data {
  readonly payload: unknown;
  readonly replyTo: string;
}

const worker = new Worker<Data, void>(
  'chain',
  async ({ id = '', data }) => {
    const result = await callHandler(JSON.stringify(data.payload));
    await pool.query({ ...update, values: [id, result] });
    await replies.publish(data.replyTo, JSON.stringify({ id, result }));
  },
  {
    connection: new Redis(redisUrl, { maxRetriesPerRequest: null }),
    prefix,
    concurrency: slots,
    skipVersionCheck: true,
  },
);
await worker.waitUntilReady();
process.send?.({ type: 'ready' });
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
