import { z } from 'zod';
import { isBearerToken } from './bearer.ts';
import { parseRanges } from './egress/ranges.ts';
import { SecretError, openKeyRing } from './secrets.ts';
import { limitSettings } from './config/limits.ts';
import { quotaSettings } from './config/quotas.ts';
import { storageSettings } from './config/storage.ts';
import { globalLimit, integer, note, onOff, oneOf, ratio, url, wholeNumber } from './config/kinds.ts';

/** Returns the problem of a key ring, without the keys themselves. */
const keyRingFault = (ring: string): string | null => {
  try {
    openKeyRing(ring);
    return null;
  } catch (error) {
    if (error instanceof SecretError) return error.message;
    throw error;
  }
};

const rangesFault = (ranges: string): string | null => {
  try {
    parseRanges(ranges);
    return null;
  } catch (error) {
    if (error instanceof RangeError) return error.message;
    throw error;
  }
};

/** In characters; what is longer is no token of operators. */
export const maxOpsTokenLength = 1000;

/** Every setting of the platform: `docs` are generated from it, and nothing else reads `process.env`. */
export const settings = z.object({
  HOST: note(z.string().default('127.0.0.1'), 'The address that the API listens on.'),
  PORT: note(integer(3000, 0, 65_535), 'The port that the API listens on; 0 takes any free one.'),
  DATA_DIR: note(z.string().default('.data'), 'Where `npm start` keeps its databases and made secrets.'),
  DATABASE_URL: note(
    url('postgres', 'postgresql'),
    'The control database, as a role that may create databases and roles.',
  ),
  REDIS_URL: note(url('redis', 'rediss'), 'The Redis or Valkey (6.2 or newer) that moves the work.'),
  PLINTH_REDIS_PREFIX: note(
    z
      .string()
      .regex(/^[a-z0-9-]{1,40}$/, { error: 'may hold the letters a to z, digits and -, at most 40 of them' })
      .default('plinth'),
    'Begins the name of every Redis key, for a Redis that is shared.',
  ),
  WORKERS: note(integer(2, 0, 64), 'How many worker processes `npm start` runs.'),
  WORKER_QUEUES: note(
    z
      .string()
      .regex(/^[a-z]+(,[a-z]+)*$/, { error: 'must be names of queues, separated by commas' })
      .optional(),
    'Which queues this worker serves, separated by commas; empty means all: functions, system, webhooks, email, ai, vectors, storage.',
  ),
  DRAIN_MS: note(integer(10_000, 0, 600_000), 'How long a stopping process waits for what is running.', 'ms'),
  SANDBOX: note(
    oneOf(['strict', 'best-effort']).optional(),
    'How functions are fenced. `strict` (the default) refuses to start without Linux namespaces.',
  ),
  PUBLIC_DOMAIN: note(
    z
      .string()
      .regex(/^[a-z0-9.-]+(:\d+)?$/, { error: 'must be a host name without https://, such as example.org' })
      .optional(),
    'When set, projects are also served at `{ref}.{PUBLIC_DOMAIN}`.',
  ),
  PLINTH_BASE_URL: note(
    url('http', 'https').optional(),
    'The address clients use, when it is not the one of the request.',
  ),
  PLINTH_SECRET_KEYS: note(
    z.string().superRefine((ring, issues) => {
      const fault = keyRingFault(ring);
      if (fault !== null) issues.addIssue({ code: 'custom', message: fault });
    }),
    'The key ring: `1:<base64 of 32 bytes>`, several separated by commas; the highest number encrypts, all decrypt.',
  ),
  PLINTH_OPS_TOKEN: note(
    z
      .string()
      .min(16)
      .max(maxOpsTokenLength)
      .refine(isBearerToken, { error: 'may hold only the letters a to z and A to Z, digits and - . _ ~ + / =' })
      .optional(),
    'What operators present at `/metrics` and `/ops`.',
  ),
  PLINTH_LOCAL: note(onOff('off'), 'Set by `npm start`: one machine, for development.'),
  PLINTH_DASHBOARD_DIR: note(
    z.string().default('dist/dashboard'),
    'The folder of the built dashboard and operators’ page: `npm run build` fills it, and `npm start` builds one of its own.',
  ),
  PLINTH_BWRAP: note(z.string().optional(), 'Path of the bubblewrap program when it is not on PATH.'),
  PLINTH_PYTHON: note(
    z.string().optional(),
    'Path of the Python (3.9 or newer) that functions run in, when it is not /usr/bin/python3 or /usr/local/bin/python3.',
  ),
  PLINTH_WORKER_NAME: note(z.string().default('worker'), 'The name of this worker in logs.'),
  PLINTH_WORKER_PORT: note(
    wholeNumber(0, 65_535).optional(),
    'The port where a worker answers `/healthz`, `/readyz` and `/metrics`, on `HOST`; empty means that it does not.',
  ),
  PLINTH_LOG_LEVEL: note(
    oneOf(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
    'The least level that is logged.',
  ),
  PLINTH_LOG_FORMAT: note(oneOf(['json', 'pretty']).optional(), 'By default readable in a terminal, JSON elsewhere.'),
  OTEL_EXPORTER_OTLP_ENDPOINT: note(
    url('http', 'https').optional(),
    'An OpenTelemetry receiver (OTLP over HTTP) for traces; empty means no tracing.',
  ),
  PLINTH_TRACE_RATIO: note(ratio.default(1), 'Of the traces that begin here, the part that is recorded.'),
  PLINTH_DATABASE_POOL: note(integer(16, 2, 500), 'Connections to the control database, per process.'),
  PLINTH_TENANT_CONNECTIONS: note(integer(40, 4, 2000), 'Connections to project databases, per process.'),
  PLINTH_RELAY_CONNECTIONS: note(
    integer(8, 0, 200),
    'Connections to project databases that a system worker keeps open to take the events of their tables.',
  ),
  PLINTH_MIGRATE: note(onOff('on'), 'Whether the API brings the control database up to date when it starts.'),
  PLINTH_FUNCTION_SLOTS: note(integer(8, 1, 256), 'Functions that one worker runs at a time.'),
  PLINTH_SYSTEM_SLOTS: note(integer(4, 1, 64), 'Provisioning and other platform jobs that one worker runs at a time.'),
  PLINTH_CRON_SLOTS: note(integer(32, 1, 256), 'Scheduled requests and statements that one worker runs at a time.'),
  PLINTH_WEBHOOK_SLOTS: note(integer(512, 1, 2000), 'Deliveries to webhooks that one worker has under way at a time.'),
  PLINTH_EMAIL_SLOTS: note(integer(16, 1, 256), 'Mails of projects that one worker sends at a time.'),
  PLINTH_AI_SLOTS: note(integer(64, 1, 1000), 'Arenas that one worker has under way at a time.'),
  PLINTH_VECTOR_SLOTS: note(integer(16, 1, 256), 'Upserts of documents that one worker has under way at a time.'),
  PLINTH_PICTURE_SLOTS: note(integer(2, 1, 64), 'Pictures that one worker makes at a time; each keeps one core busy.'),
  PLINTH_WAITING_JOBS: note(
    integer(10_000, 1, 10_000_000),
    'Jobs of one type that one project may have waiting; more are refused as `queue_full`.',
  ),
  PLINTH_WEIGHT_FREE: note(
    integer(1, 1, 63),
    'The places that a project of the Free plan gets in its turn, while projects compete for the slots of a job type.',
  ),
  PLINTH_WEIGHT_PRO: note(integer(2, 1, 63), 'The same on the Pro plan.'),
  PLINTH_WEIGHT_ENTERPRISE: note(integer(4, 1, 63), 'The same on the Enterprise plan.'),
  PLINTH_ORGANIZATION_RUNNING: note(
    wholeNumber(1, 1_000_000).optional(),
    'Jobs of one type that all projects of an organization may have running together; empty means any number. Operators set other numbers for single organizations.',
  ),
  PLINTH_SLEEPING_RUNS: note(
    integer(100_000, 1, 10_000_000),
    'Runs of functions that one project may have asleep between two steps; a further one fails.',
  ),
  PLINTH_MONTHLY_CAP_FREE: note(
    integer(100_000, 0, 1_000_000_000),
    'Runs of functions that a project of the Free plan may have in a calendar month (UTC).',
  ),
  PLINTH_MONTHLY_CAP_PRO: note(
    integer(2_000_000, 0, 1_000_000_000),
    'The same on the Pro plan; Enterprise has no cap.',
  ),
  PLINTH_QUEUE_SHARDS: note(
    integer(1, 1, 64),
    'Over how many parts of a Redis Cluster the projects of each job type are spread; 1 without a cluster.',
  ),
  PLINTH_JOB_WAIT_DAYS: note(integer(7, 1, 365), 'A job that waited so long has expired.', 'days'),
  PLINTH_KEEP_SUCCEEDED_HOURS: note(integer(24, 1, 8760), 'How long succeeded jobs are kept.', 'hours'),
  PLINTH_KEEP_FAILED_DAYS: note(integer(14, 1, 365), 'How long jobs that ended otherwise are kept.', 'days'),
  PLINTH_KEEP_INVOCATION_DAYS: note(
    integer(30, 1, 3650),
    'How long runs of functions and their logs are kept.',
    'days',
  ),
  PLINTH_KEEP_DELIVERED_DAYS: note(integer(7, 1, 365), 'How long deliveries that succeeded are kept.', 'days'),
  PLINTH_KEEP_UNDELIVERED_DAYS: note(integer(30, 1, 365), 'How long other deliveries are kept.', 'days'),
  PLINTH_KEEP_REMOVED_FILES_HOURS: note(
    integer(24, 1, 8760),
    'How long the bytes of files that were replaced or deleted are kept: a copy of the databases that is no older finds them.',
    'hours',
  ),
  PLINTH_SMTP_URL: note(
    url('smtp', 'smtps').optional(),
    'The server for the platform’s own mail (invites, resets, notices): smtp://user:password@host:587, or smtps:// for TLS from the start.',
  ),
  PLINTH_SMTP_ANSWER_MS: note(
    integer(600_000, 100, 600_000),
    'How long a mail server may take to answer once it has the whole mail; after that the mail’s fate is unknown and it is not sent again by itself.',
    'ms',
  ),
  PLINTH_MAIL_FROM: note(
    z.string().max(320).optional(),
    'The sender of the platform’s own mail: `Name <address>` or an address; empty means plinth@ and the host of PLINTH_BASE_URL.',
  ),
  PLINTH_PLAN_CHANGES: note(
    oneOf(['anyone', 'operator']).default('anyone'),
    'Who may choose a plan other than free: project owners, or operators only.',
  ),
  PLINTH_FREE_PROJECTS_PER_ORG: note(integer(10, 1, 1_000_000), 'Projects on the Free plan per organization.'),
  PLINTH_ORGS_PER_USER: note(integer(20, 1, 1_000_000), 'Organizations that one user may own.'),
  PLINTH_TRUST_PROXY: note(
    onOff('off'),
    'Whether the last address of X-Forwarded-For, and X-Forwarded-Proto, X-Forwarded-Host and traceparent, are believed: on behind one proxy that sets or removes them all.',
  ),
  ...limitSettings,
  ...quotaSettings,
  ...storageSettings,
  PLINTH_AI_FIRST_BYTE_MS: note(
    integer(60_000, 100, 600_000),
    'How long a provider of models may take to begin its answer: all of its time when it is not a stream. Models that think for long need more.',
    'ms',
  ),
  PLINTH_AI_KEEP_ALIVE_MS: note(
    integer(15_000, 10, 600_000),
    'How long the stream of a chat may be silent before it says `: keep-alive`, also before the first word.',
    'ms',
  ),
  PLINTH_AI_PRICES: note(
    z.string().optional(),
    'A JSON file with prices of models, which come before those that plinth knows: docs/ai.md has its form.',
  ),
  PLINTH_EGRESS_ALLOW: note(
    z
      .string()
      .superRefine((ranges, issues) => {
        const fault = rangesFault(ranges);
        if (fault !== null) issues.addIssue({ code: 'custom', message: fault });
      })
      .optional(),
    'Address ranges (CIDR, separated by commas) that outgoing requests may reach beside public ones. Set, even to nothing, it is the whole list; not set under `npm start`, loopback is open, but not to functions.',
  ),
  PLINTH_DELETED_PROJECT_DAYS: note(integer(7, 0, 365), 'How long the database of a deleted project is kept.', 'days'),
});

/** Begins the names of the settings that there are for each job type: `queues/settings.ts` knows the types. */
export const globalLimitPrefix = 'PLINTH_GLOBAL_';

const withGlobalLimits = settings.catchall(globalLimit);

export type Config = Readonly<z.output<typeof settings>> & {
  /** How many jobs of a type run at a time on the whole installation, by the setting's name. */
  readonly globalLimits: Readonly<Record<string, number | undefined>>;
};

/** A setting that stops the start. Its message names each wrong setting and why. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The exit code of a process that cannot start as configured (EX_CONFIG): its supervisor does not start it again. */
export const configExitCode = 78;

// Names that other parts read: tests and the start-up scripts.
const foreign = /^PLINTH_TEST_/;

/** `PLINTH_` names in the environment that no setting has: most likely misspelt. */
export const unknownSettings = (env: NodeJS.ProcessEnv, known: object = settings.shape): string[] =>
  Object.keys(env).filter((name) => name.startsWith('PLINTH_') && !(name in known) && !foreign.test(name));

// Where empty is a value of its own.
const mayBeEmpty = new Set(['PLINTH_EGRESS_ALLOW']);

const isSetting = (name: string): boolean => name in settings.shape || name.startsWith(globalLimitPrefix);

/** An empty value counts as not set, but for those in `mayBeEmpty`. */
const givenIn = (env: NodeJS.ProcessEnv): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(
    Object.entries(env).filter(([name, value]) => isSetting(name) && (value !== '' || mayBeEmpty.has(name))),
  );

/**
 * Returns the problems of the settings, one line each; empty when they can be used.
 * @param later names that are set later: they may be missing here
 */
export const settingFaults = (env: NodeJS.ProcessEnv, later: readonly string[] = []): string[] => {
  const given = givenIn(env);
  const issues = withGlobalLimits.safeParse(given).error?.issues ?? [];
  return issues.flatMap((issue) => {
    const name = String(issue.path[0]);
    if (given[name] !== undefined) return [`${name}: ${issue.message}`];
    return later.includes(name) ? [] : [`${name} is not set`];
  });
};

/** The message for people that lists faults of settings. */
export const faultList = (faults: readonly string[]): string =>
  `The settings are not usable:\n${faults.map((line) => `  ${line}`).join('\n')}\nSee plinth.env.example.`;

/**
 * Reads the settings.
 * @throws {ConfigError} naming every setting that is missing or wrong.
 */
export const loadConfig = (env: NodeJS.ProcessEnv): Config => {
  const { data } = withGlobalLimits.safeParse(givenIn(env));
  if (data === undefined) throw new ConfigError(faultList(settingFaults(env)));
  const limits = Object.entries(data).filter(([name]) => name.startsWith(globalLimitPrefix));
  return { ...data, globalLimits: Object.fromEntries(limits) as Config['globalLimits'] };
};

/** Where each process finds its settings; the one place that touches `process.env`. */
export const environment = (): NodeJS.ProcessEnv => process.env;
