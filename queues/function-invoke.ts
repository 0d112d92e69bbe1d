import { z } from 'zod';
import { defineJob } from './define.ts';

/** How a run of a function can end (contract, section 4). */
export const runStatuses = [
  'success',
  'error',
  'timeout',
  'memory_limit',
  'cpu_limit',
  'result_too_large',
  'crashed',
  'cancelled',
] as const;

export type RunStatus = (typeof runStatuses)[number];

/** Where the time of a run went, in milliseconds. Database and requests overlap with each other and with the rest. */
const timings = z.object({
  /** From when it was queued until its row said that it runs. */
  queue: z.number(),
  /** From then until a sandbox had it. */
  start: z.number(),
  /** While at least one call of the database was under way. */
  db: z.number(),
  /** While at least one request was under way. */
  fetch: z.number(),
  cpu: z.number(),
});
export type RunTimings = z.output<typeof timings>;

/** How well the runners of a language are fenced in; the strongest last. */
export const sandboxLevels = ['best-effort', 'strict'] as const;

export type SandboxLevel = (typeof sandboxLevels)[number];

/** By language; what a worker says of itself. */
export type SandboxFacts = Readonly<Record<string, SandboxLevel>>;

/** The HTTP request of a public call, for `sdk.request`. */
const request = z.object({
  method: z.string(),
  /** Scheme, host and path of the function's own address. */
  base: z.string(),
  /** The part of the path below the slug, undecoded; `/` when there is none. */
  path: z.string(),
  /** The text after the `?`. */
  query: z.string(),
  /** Names in lower case; no header with our own credentials is among them. */
  headers: z.record(z.string(), z.string()),
  ip: z.string(),
  /** How the bytes of the body follow from the payload; `bytes`: they are `body`, in base64. */
  kind: z.enum(['none', 'payload', 'text', 'bytes']),
  body: z.string(),
});
export type FunctionRequest = z.output<typeof request>;

/** The caller that used a key, as far as it was verified. */
const caller = z.object({
  kind: z.enum(['secret', 'publishable', 'user', 'public']),
  /** Null: the token of a user came without a key, or nothing came. */
  key_id: z.string().nullable(),
  /** The claims of the user's token, as they were signed. */
  user: z.record(z.string(), z.unknown()).nullable(),
});
export type FunctionCaller = z.output<typeof caller>;

/** One run of one version of a function. Retried only while its handler has not started. */
export const functionInvoke = defineJob({
  type: 'function.invoke',
  pool: 'functions',
  data: z.object({
    function_id: z.uuid(),
    /** Below zero: the draft of that number. */
    version: z.int().refine((version) => version !== 0),
    trigger: z.enum(['api', 'dashboard', 'cron', 'webhook', 'job', 'event']),
    /** JSON text, handed to the handler exactly as it came. */
    payload: z.string(),
    /** Left out: it was not called over HTTP at its own address. */
    request: request.optional(),
    /** A schedule's own; left out: the function's. */
    timeout_ms: z.int().positive().optional(),
    /** The caller takes an answer that is sent while the run goes on. */
    streams: z.literal(true).optional(),
    /**
     * It stays the last field: the record of a run reads the fields before it by position. Left out: no caller by key.
     */
    caller: caller.optional(),
  }),
  result: z.object({
    status: z.enum(runStatuses),
    result: z.unknown(),
    duration_ms: z.number().nonnegative(),
    /**
     * The result is a response, `{status, headers, body}`, and how its body is written; `stream`: it went to its caller
     * and is not kept.
     */
    response: z.enum(['text', 'base64', 'stream']).optional(),
    timings: timings.optional(),
    invocation_id: z.uuid(),
    error: z.object({ name: z.string(), message: z.string(), stack: z.string() }).optional(),
    logs: z
      .array(
        z.object({
          ts: z.string(),
          level: z.string(),
          message: z.string(),
          fields: z.record(z.string(), z.unknown()).optional(),
        }),
      )
      .optional(),
  }),
  running: { free: 5, pro: 25, enterprise: 100 },
  plural: 'Functions that run',
  maxAttempts: 3,
  repeatable: false,
  // A function's own time-out is at most 300 s; beyond it something of ours hangs.
  timeoutMs: 330_000,
  capped: true,
  keepsPlaces: true,
});
