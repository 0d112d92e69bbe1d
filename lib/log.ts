import { type Logger, destination, pino, transport } from 'pino';
import { logContext } from './context.ts';

export type Log = Logger;

export interface LogOptions {
  readonly level: string;
  /** `pretty` for a terminal, `json` for machines. */
  readonly format: 'json' | 'pretty';
  /** `api` or the worker's name. */
  readonly process: string;
}

// Wherever one of these names stands in a logged object, its value is not written.
const secretNames = [
  'password',
  'token',
  'access_token',
  'refresh_token',
  'api_key',
  'authorization',
  'apikey',
  'cookie',
  'secret',
  'env',
  'env_vars',
  'connectionString',
];
const paths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`, `["x-api-key"]`, `*["x-api-key"]`]);

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
  redact: { paths: [...new Set(paths)], censor: '[redacted]' },
};

/** The process's logger: one JSON object a line, or readable lines; the request, project and job id in each. */
export const createLog = (options: LogOptions): Log => {
  const settings = {
    level: options.level,
    base: { process: options.process },
    ...logBasics,
    timestamp: pino.stdTimeFunctions.isoTime,
  };
  if (options.format === 'json') return pino(settings, destination({ fd: 1, sync: false }));
  const pretty = {
    target: 'pino-pretty',
    options: { translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname,process', messageFormat: '{process}: {msg}' },
  };
  return pino(settings, transport(pretty));
};

/** Readable lines in a terminal, JSON elsewhere, unless a setting says otherwise. */
export const logFormat = (wanted: LogOptions['format'] | undefined): LogOptions['format'] =>
  wanted ?? (process.stdout.isTTY ? 'pretty' : 'json');
