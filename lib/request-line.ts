import { pino } from 'pino';
import { type LogContext, logContext } from './context.ts';
import type { Log } from './log.ts';

/** The fields of a request's log line. */
export interface RequestLine {
  /** As the HTTP parser knows it: no character needs to be escaped. */
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly ms: number;
}

/** The state that a pino logger has under its symbols (`pino.symbols`). */
interface Inside {
  readonly stream: { readonly write: (line: string) => void };
  /** `{"level":30` */
  readonly start: string;
  readonly time: () => string;
  /** The fields that each of its lines carries. */
  readonly bindings: string;
}

const insideOf = (log: Log): Inside => {
  const { streamSym, lsCacheSym, timeSym, chindingsSym } = pino.symbols;
  const of = (symbol: symbol): unknown => Reflect.get(log, symbol);
  return {
    stream: of(streamSym) as Inside['stream'],
    start: (of(lsCacheSym) as Readonly<Record<number, string>>)[pino.levels.values['info'] ?? 0] ?? '',
    time: of(timeSym) as () => string,
    bindings: of(chindingsSym) as string,
  };
};

const idsText = ({ requestId, projectId }: LogContext): string => {
  const request = requestId === undefined ? '' : `,"request_id":"${requestId}"`;
  return projectId === undefined ? request : `${request},"project_id":"${projectId}"`;
};

/**
 * Writes the line of each request as `log.info({ method, … }, 'request')` would, at a quarter of its cost: its fields
 * are known, none is secret, and it is written more often than all other lines together. The context is passed for
 * lines that are written later.
 */
export const createRequestLog = (log: Log): ((line: RequestLine, context?: LogContext) => void) => {
  const { stream, start, time, bindings } = insideOf(log);
  return ({ method, path, status, ms }, context = logContext()) => {
    if (!log.isLevelEnabled('info')) return;
    const about = `"method":"${method}","path":${JSON.stringify(path)},"status":${status},"ms":${Math.round(ms * 10) / 10}`;
    stream.write(`${start}${time()}${bindings}${idsText(context)},${about},"msg":"request"}\n`);
  };
};
