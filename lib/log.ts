import { type Logger, destination, pino, transport } from 'pino';
import { logContext } from './context.ts';
import { linesTo } from './log-lines.ts';

export type Log = Logger;

export interface LogOptions {
  readonly level: string;
  /** `pretty` for a terminal, `json` for machines. */
  readonly format: 'json' | 'pretty';
  /** `api` or the worker's name. */
  readonly process: string;
}

// Wherever one of these names stands in a logged object, its value is not written. Compared without case, - and _.
const secretNames = new Set([
  'password',
  'passwordhash',
  'token',
  'accesstoken',
  'refreshtoken',
  'apikey',
  'xapikey',
  'publishablekey',
  'authorization',
  'cookie',
  'setcookie',
  'secret',
  'env',
  'envvars',
  'connectionstring',
  'databaseurl',
  'redisurl',
]);
const deepest = 4;

const isSecret = (name: string): boolean => secretNames.has(name.toLowerCase().replaceAll(/[-_]/g, ''));

const redactValue = (value: unknown, depth: number): unknown => {
  if (Array.isArray(value)) return depth < deepest ? value.map((item) => redactValue(item, depth + 1)) : '[…]';
  if (!isPlain(value)) return value;
  return depth < deepest ? redact(value, depth + 1) : '[…]';
};

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/**
 * Returns the object without the values of secrets, four levels deep. pino's own redaction resolves every path again for
 * each line; this walks the present fields, and costs 1 µs.
 */
export const redact = (object: Record<string, unknown>, depth = 0): Record<string, unknown> => {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(object)) {
    kept[name] = isSecret(name) ? '[redacted]' : redactValue(value, depth);
  }
  return kept;
};

/** Secrets out, the context's ids in: what every logger of the platform does. */
export const logBasics = {
  mixin: () => {
    const { requestId, projectId, jobId } = logContext();
    return {
      ...(requestId && { request_id: requestId }),
      ...(projectId && { project_id: projectId }),
      ...(jobId && { job_id: jobId }),
    };
  },
  serializers: { err: (error: Error) => redact({ ...pino.stdSerializers.err(error) }) },
  formatters: { log: (object: Record<string, unknown>) => redact(object) },
};

/** The process's logger: one JSON object a line, or readable lines; the request, project and job id in each. */
export const createLog = (options: LogOptions): Log => {
  const settings = {
    level: options.level,
    base: { process: options.process },
    ...logBasics,
    timestamp: pino.stdTimeFunctions.isoTime,
  };
  if (options.format === 'json') {
    // Many lines in one write; what is left goes out at the end of the process, too.
    return pino(settings, linesTo(destination({ fd: 1, sync: false, minLength: 4096 })));
  }
  const pretty = {
    target: 'pino-pretty',
    options: {
      translateTime: 'SYS:HH:MM:ss',
      ignore: 'pid,hostname,process',
      messageFormat: '{process}: {msg}',
      singleLine: true,
    },
  };
  return pino(settings, transport(pretty));
};

/** Readable lines in a terminal, JSON elsewhere, unless a setting says otherwise. */
export const logFormat = (wanted: LogOptions['format'] | undefined): LogOptions['format'] =>
  wanted ?? (process.stdout.isTTY ? 'pretty' : 'json');
