import { createHmac, randomBytes } from 'node:crypto';
import { Queue, Worker } from 'bullmq';
import { Agent, request } from 'undici';
import { openRequestRedis, openWorkerRedis } from '#lib/redis.ts';
import { answerParent } from '../jobs/child.ts';
import { log } from '../jobs/ways/side.ts';

/** The floor without us: POST and HMAC, recorded nowhere; alone, or as the processor of a BullMQ worker. */
export interface LoopPlan {
  readonly url: string;
  readonly count: number;
  readonly atOnce: number;
  readonly redisUrl: string;
  readonly prefix: string;
}

const dispatcher = new Agent();
const secret = randomBytes(32);
const data = '{"id":"0192d0c0-0000-7000-8000-000000000000","total":12.5}';

const post = async (url: string): Promise<void> => {
  const body = `{"event":"auth.signup","data":${data}}`;
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  const headers = { 'content-type': 'application/json', 'x-webhook-signature': signature };
  const answer = await request(url, { dispatcher, method: 'POST', headers, body });
  await answer.body.text();
};

const bare = async ({ url, count, atOnce }: LoopPlan): Promise<void> => {
  let left = count;
  const caller = async (): Promise<void> => {
    while ((left -= 1) >= 0) await post(url);
  };
  await Promise.all(Array.from({ length: atOnce }, caller));
};

const maxAdded = 500;

const throughBullmq = async ({ url, count, atOnce, redisUrl, prefix }: LoopPlan): Promise<void> => {
  const [adding, working] = [openRequestRedis(redisUrl, log), openWorkerRedis(redisUrl, log)];
  const place = { prefix: `{${prefix}:loop}`, skipVersionCheck: true };
  const defaultJobOptions = { attempts: 1, removeOnComplete: true, removeOnFail: true };
  const queue = new Queue('loop', { ...place, connection: adding, defaultJobOptions });
  await queue.waitUntilReady();
  const all = Promise.withResolvers<void>();
  let done = 0;
  const worker = new Worker('loop', () => post(url), { ...place, connection: working, concurrency: atOnce });
  worker.on('completed', () => {
    if ((done += 1) >= count) all.resolve();
  });
  for (let added = 0; added < count; added += maxAdded) {
    await queue.addBulk(Array.from({ length: Math.min(maxAdded, count - added) }, () => ({ name: 'post', data: {} })));
  }
  await all.promise;
  await worker.close();
  await queue.close();
  for (const connection of [adding, working]) connection.disconnect();
};

answerParent({ bare, bullmq: throughBullmq });
