import { createGateway } from '#domain/ai/gateway/gateway.ts';
import type { Gateway } from '#domain/ai/gateway/types.ts';
import { createInFlight } from '#domain/ai/gateway/in-flight.ts';
import { createProviderKeys } from '#domain/ai/keys/keys.ts';
import { createCallLog } from '#domain/ai/usage/call-log.ts';
import type { CallLog } from '#domain/ai/usage/usage.ts';
import { openPrices } from '#domain/ai/prices/prices.ts';
import { openPlatform } from '#domain/platform.ts';
import { type Project, findProject } from '#domain/projects/store.ts';
import { environment, loadConfig } from '#lib/config.ts';
import { createByteBudget } from '#lib/byte-budget.ts';
import { createEgress } from '#lib/egress.ts';
import { createJsonParser } from '#lib/json-parser.ts';
import { createLog } from '#lib/log.ts';
import { answerParent } from '../jobs/child.ts';
import { model } from './scene.ts';

/** A process that makes calls through the gateway, recorded or not. */
const nothing: CallLog = {
  begin: () => ({ recorded: Promise.resolve(), end: () => undefined }),
  settled: () => Promise.resolve(),
  close: () => Promise.resolve(),
};

const callers = 16;
const config = loadConfig(environment());
const log = createLog({ level: 'warn', format: 'json', process: 'bench' });
const platform = await openPlatform(config, log);
const egress = createEgress({ allow: '127.0.0.0/8', local: false });
const calls = createCallLog({ db: platform.db, log });
const parts = {
  prices: await openPrices(undefined),
  keys: createProviderKeys({ db: platform.db, sealer: platform.projects.sealer, isSubscribed: () => true }),
  inFlight: createInFlight({ redis: null, prefix: config.PLINTH_REDIS_PREFIX }),
  answerBytes: createByteBudget({ perOwner: 64_000_000, total: 256_000_000 }),
  json: createJsonParser(),
  egress,
  log,
};
const gateways = { on: createGateway({ ...parts, calls }), off: createGateway({ ...parts, calls: nothing }) };

const stays = { aborted: false, addEventListener: () => undefined, removeEventListener: () => undefined };

const callOver = async (gateway: Gateway, project: Project, until: number): Promise<number> => {
  let made = 0;
  while (performance.now() < until) {
    const caller = { project, kind: 'chat', requestId: 'bench', signal: stays } as const;
    await gateway.chat(caller, { model, messages: [{ role: 'user', content: 'Say a hundred words.' }] });
    made += 1;
  }
  return made;
};

interface Round {
  readonly projectId: string;
  readonly logging: 'on' | 'off';
  readonly seconds: number;
}

/** @returns CPU time of a call, all threads, in µs */
const round = async ({ projectId, logging, seconds }: Round): Promise<number> => {
  const project = await findProject(platform.db, projectId);
  if (project === undefined) throw new Error('the project is not there');
  const [before, until] = [process.cpuUsage(), performance.now() + seconds * 1000];
  const all = Array.from({ length: callers }, () => callOver(gateways[logging], project, until));
  const made = (await Promise.all(all)).reduce((sum, one) => sum + one, 0);
  await calls.settled();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / made;
};

answerParent({ round: (plan: Round) => round(plan) });
