import type { RequestListener, Server } from 'node:http';
import { createMailPreviews } from '#domain/email/previews.ts';
import type { Redis } from 'ioredis';
import { openAi } from '#domain/ai/ai.ts';
import { openAssistant } from '#domain/assistant/assistant.ts';
import { controlMigrations } from '#domain/control-schema.ts';
import { createCompiler } from '#domain/functions/compiler.ts';
import { createMembers } from '#domain/accounts/callers.ts';
import { createCredentialUse } from '#domain/accounts/use.ts';
import { createFunctionVersions } from '#domain/functions/functions.ts';
import { createPythonChecker } from '#domain/functions/python.ts';
import { createPaypal } from '#domain/integrations/paypal.ts';
import type { Jobs } from '#domain/jobs/jobs.ts';
import { openJobs } from '#domain/jobs/open.ts';
import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import { createMailSender } from '#domain/end-users/mails.ts';
import { createResetSender } from '#domain/accounts/resets.ts';
import { createPlatformMail } from '#domain/mail/mail.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { createByteBudget } from '#lib/byte-budget.ts';
import { answersWithin } from '#lib/answers-within.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { createEgress } from '#lib/egress.ts';
import { createJsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import { migrate, waitForSchema } from '#lib/migrate.ts';
import { ownAddress } from '#lib/own-address.ts';
import { checkRedis, refuseEviction } from '#lib/redis.ts';
import { announceCalls } from '#domain/logs/announce.ts';
import { createProjectLog } from '#domain/logs/project-log.ts';
import { createProjectStats } from '#domain/stats/project-stats.ts';
import { createSerializer } from '#lib/serialize.ts';
import { jobs as jobDefinitions } from '#queues/registry.ts';
import type { Signals } from '#queues/signals.ts';
import { createApp } from './app.ts';
import { openDataDeps } from './data-api-deps.ts';
import type { Deps, Health } from './deps.ts';
import { docsPages } from './docs/pages.ts';
import { endpoints } from './endpoints.ts';
import { listen } from './listen.ts';
import { opsPages } from './ops/pages.ts';
import { openBuild } from './web/build.ts';
import { dashboardPage } from './web/pages.ts';
import { createUnsent } from './http/unsent.ts';
import { createRateLimiter } from './rate-limit.ts';
import { openStorage } from './storage/open.ts';

/** A server that answers. */
export interface Api {
  readonly port: number;
  readonly server: Server;
  /** Says no to new work, ends what is running, closes everything. */
  readonly stop: () => Promise<void>;
}

const checkTimeoutMs = 1500;

const answers = (check: Promise<unknown>): Promise<boolean> => answersWithin(check, checkTimeoutMs);

interface HealthOptions {
  readonly db: ControlDb;
  readonly redis: Redis;
  readonly storage: () => Promise<boolean>;
  readonly accepting: () => boolean;
}

const healthOf = ({ db, redis, storage: files, accepting }: HealthOptions): Health => ({
  accepting,
  check: async () => {
    const checks = [answers(db.query('select 1')), answers(checkRedis(redis)), files()] as const;
    const [postgres, queue, storage] = await Promise.all(checks);
    return { needed: { postgres, redis: queue }, others: { storage } };
  },
});

const rateLimiterFor = (config: Config, redis: Redis) =>
  createRateLimiter({
    redis,
    prefix: config.PLINTH_REDIS_PREFIX,
    rules: {
      dashboard: { limit: config.PLINTH_RATE_LIMIT_DASHBOARD, windowSeconds: 60 },
      'sign-in': { limit: config.PLINTH_RATE_LIMIT_SIGN_IN, windowSeconds: 300 },
      // Programs refresh by themselves, many behind one address.
      refresh: { limit: config.PLINTH_RATE_LIMIT_DASHBOARD, windowSeconds: 60 },
      'data-free': { limit: config.PLINTH_RATE_LIMIT_DATA_FREE, windowSeconds: 60 },
      'flags-free': { limit: config.PLINTH_RATE_LIMIT_FLAGS_FREE, windowSeconds: 60 },
      'flags-pro': { limit: config.PLINTH_RATE_LIMIT_FLAGS_PRO, windowSeconds: 60 },
      'ai-free': { limit: config.PLINTH_RATE_LIMIT_AI_FREE, windowSeconds: 60 },
      'ai-pro': { limit: config.PLINTH_RATE_LIMIT_AI_PRO, windowSeconds: 60 },
      'data-pro': { limit: config.PLINTH_RATE_LIMIT_DATA_PRO, windowSeconds: 60 },
      'public-address': { limit: config.PLINTH_RATE_LIMIT_PUBLIC_ADDRESS, windowSeconds: 60 },
      'public-free': { limit: config.PLINTH_RATE_LIMIT_PUBLIC_FREE, windowSeconds: 60 },
      'public-pro': { limit: config.PLINTH_RATE_LIMIT_PUBLIC_PRO, windowSeconds: 60 },
      // By address: a provider reports for many projects from a few.
      hooks: { limit: config.PLINTH_RATE_LIMIT_DATA_PRO, windowSeconds: 60 },
      // By address: the server of an application asks for all of its users.
      oauth: { limit: config.PLINTH_RATE_LIMIT_DATA_PRO, windowSeconds: 60 },
      // By address: a page shows many public files.
      files: { limit: config.PLINTH_RATE_LIMIT_DATA_PRO, windowSeconds: 60 },
    },
  });

const prepareDatabase = (config: Config, log: Log): Promise<void> =>
  config.PLINTH_MIGRATE === 'on'
    ? migrate(config.DATABASE_URL, controlMigrations)
    : waitForSchema(config.DATABASE_URL, controlMigrations, log);

const idleCheckMs = 100;

/** Resolves when the last request is answered. A kept-alive connection may fall idle only after the first check. */
const closeServer = async (server: Server): Promise<void> => {
  const timer = setInterval(() => server.closeIdleConnections(), idleCheckMs);
  await new Promise<void>((resolve) => void server.close(() => resolve()));
  clearInterval(timer);
};

/** Memory for clients: request bodies, answers that they do not read, and in Redis previews of what they write. */
const memoryOfClients = (config: Config, log: Log, redis: Redis): Pick<Deps, 'bodies' | 'unsent' | 'mailPreviews'> => ({
  mailPreviews: createMailPreviews(redis, config.PLINTH_REDIS_PREFIX),
  bodies: createByteBudget({ perOwner: config.PLINTH_BODIES_PER_PROJECT, total: config.PLINTH_BODIES_PER_PROCESS }),
  unsent: createUnsent(config, log),
});

const listenerFor = (deps: Deps, redis: Redis): RequestListener => {
  const { PLINTH_REDIS_PREFIX: prefix, PLINTH_QUEUE_SHARDS: shardCount } = deps.config;
  const build = openBuild(deps.config.PLINTH_DASHBOARD_DIR);
  const pages = [docsPages(), dashboardPage(build), opsPages(deps, { build, redis, prefix, shardCount })];
  const respond = createApp({ endpoints, deps, pages }).callback();
  return (req, res) => void respond(req, res);
};

/** The callers and functions that calls recall. */
const memoryOfCalls = (
  db: ControlDb,
  signals: Pick<Signals, 'announceLines'>,
  log: Log,
): Pick<Deps, 'members' | 'functionVersions' | 'credentialUse' | 'stats' | 'projectLog'> => ({
  members: createMembers(),
  credentialUse: createCredentialUse(db, log),
  stats: createProjectStats({ db, log }),
  projectLog: createProjectLog({ db, signals, log }),
  functionVersions: createFunctionVersions(db),
});

interface MailOptions {
  readonly config: Config;
  readonly platform: Platform;
  readonly endUsers: EndUserDeps;
  readonly jobs: Jobs;
  readonly log: Log;
}

/** The senders of mails that are asked for: their requests are answered first. */
const startMails = ({ config, platform: { db, sealer }, endUsers, jobs, log }: MailOptions) => {
  const mail = createPlatformMail(sealer, ownAddress(config));
  const resets = createResetSender({ db, mail, log });
  const endUserMails = createMailSender({ endUsers, db, jobs, local: config.PLINTH_LOCAL === 'on', log });
  const deps: Pick<Deps, 'mail' | 'resets' | 'endUserMails'> = { mail, resets, endUserMails };
  return {
    deps,
    stop: async (): Promise<void> => {
      await resets.stop();
      await endUserMails.stop();
    },
  };
};

const stopCounting = async ({
  credentialUse,
  stats,
  projectLog,
}: Pick<Deps, 'credentialUse' | 'stats' | 'projectLog'>): Promise<void> => {
  await Promise.all([credentialUse.stop(), stats.stop(), projectLog.stop()]);
};

/** Starts the API: migrates, connects, listens. */
export const startApi = async (config: Config, log: Log): Promise<Api> => {
  await prepareDatabase(config, log);
  const platform: Platform = await openPlatform(config, log);
  const queues = openJobs({ config, log, db: platform.db, jobs: jobDefinitions });
  await refuseEviction(queues.redis);
  const rateLimiter = rateLimiterFor(config, queues.redis);
  let accepting = true;
  const egress = createEgress({ allow: config.PLINTH_EGRESS_ALLOW, local: config.PLINTH_LOCAL === 'on' });
  const [compiler, json, onEnded] = [createCompiler(), createJsonParser(), announceCalls(queues.signals)];
  const { isSubscribed } = queues.subscriber;
  const ai = await openAi({ ...queues, config, platform, egress, json, isSubscribed, onEnded, log });
  const calls = memoryOfCalls(platform.db, queues.signals, log);
  const data = openDataDeps({ config, log, platform, ai, egress, ...calls, ...queues });
  const files = await openStorage({ config, platform, data, ...queues, log });
  const mails = startMails({ config, platform, endUsers: data.endUsers, jobs: queues.jobs, log });
  const deps: Deps = {
    config,
    log,
    db: platform.db,
    compiler,
    python: createPythonChecker(config.PLINTH_PYTHON),
    jobs: queues.jobs,
    gate: queues.gate,
    subscriber: queues.subscriber,
    projects: platform.projects,
    servers: platform.servers,
    ...data,
    ...files.deps,
    ai,
    assistant: openAssistant({ platform, ai, ...data, redis: queues.redis, prefix: config.PLINTH_REDIS_PREFIX, log }),
    egress,
    json,
    sealer: platform.sealer,
    paypal: createPaypal(egress),
    ...mails.deps,
    ...calls,
    rateLimiter,
    ...memoryOfClients(config, log, queues.redis),
    serialize: createSerializer(),
    health: healthOf({ ...platform, ...queues, storage: files.check, accepting: () => accepting }),
  };
  const { server, port } = await listen(listenerFor(deps, queues.redis), config, log);
  ai.warmUp();
  return {
    port,
    server,
    stop: async () => {
      accepting = false;
      await closeServer(server);
      rateLimiter.close();
      await Promise.all([files.expiry.stop(), data.flags.stop(), mails.stop(), stopCounting(calls)]);
      compiler.close();
      await ai.close();
      await json.close();
      await egress.close();
      await queues.close();
      await platform.close();
    },
  };
};
