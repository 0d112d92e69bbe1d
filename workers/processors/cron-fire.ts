/*
 * A fire of a schedule: first how it ends, then the two targets, SQL behind the HTTP call, and the processor at the
 * end.
 */
import { type ClientBase, type Submittable, DatabaseError } from 'pg';
import { endSessionOf } from '#domain/data-api/stop-query.ts';
import { type FenceDb, inFence } from '#domain/database/console/fence.ts';
import { mayWriteRows, mentionsSchemaChange } from '#domain/database/console/statement-words.ts';
import { type Change, type ChangeListeners, noteChange } from '#domain/database/database.ts';
import type { Egress, EgressResponse } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { type Done, type Wire, doneOf, wireOf } from '#lib/postgres/wire.ts';
import type { cronFire } from '#queues/cron-fire.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { Processor } from '../processor.ts';

const succeeded = (result: object): JobOutcome => ({
  status: 'succeeded',
  result: JSON.stringify(result),
  error: null,
});

const keptMessageBytes = 4096;

/** Messages of user code may have any size. */
const cut = (message: string): string => {
  // In UTF-8 a character has at least one byte, so that longer ones need not be encoded whole.
  const bytes = Buffer.from(message.slice(0, keptMessageBytes));
  if (message.length <= keptMessageBytes && bytes.length <= keptMessageBytes) return message;
  // `stream`: a character that is cut through is left out.
  return `${new TextDecoder().decode(bytes.subarray(0, keptMessageBytes - 3), { stream: true })}…`;
};

export const failed = (code: string, message: string, result?: object): JobOutcome => ({
  status: 'failed',
  result: result ? JSON.stringify(result) : null,
  error: { code, message: cut(message) },
});

// Rows are counted by the server and not kept, but they come through our memory: all of them, and one at a time.
const maxAnswerBytes = 16 * 1024 * 1024;
const maxMessageBytes = 1024 * 1024;

const ignore = (): void => undefined;

/** pg's own query keeps every row, and a column description for each statement: this one keeps the last tag. */
const submittable = (
  sql: string,
  resolve: (done: Done) => void,
  reject: (error: unknown) => void,
): Submittable & Record<string, unknown> => {
  let tag = '';
  return {
    submit: (connection) => connection.query(sql),
    handleRowDescription: ignore,
    handleDataRow: ignore,
    handleEmptyQuery: ignore,
    handlePortalSuspended: ignore,
    handleCopyData: ignore,
    handleCopyInResponse: (wire: Wire) => wire.sendCopyFail('there is nothing to copy from'),
    handleCommandComplete: ({ text }: { readonly text: string }) => {
      tag = text;
    },
    handleError: reject,
    handleReadyForQuery: () => resolve(doneOf(tag)),
  };
};

/**
 * Runs one or several statements and keeps of what comes back only what the last one did. The connection is not to be
 * used afterwards.
 * @throws {AnswerTooLarge} above 16 MB, or 1 MB for one row or message
 * @throws what pg throws
 */
const runCounting = (client: ClientBase, sql: string): Promise<Done> => {
  const wire = wireOf(client);
  const { stream } = wire;
  return new Promise((resolve, reject) => {
    let all = 0;
    let unread = 0;
    // pg's parser has its listener first: its messages of a chunk are emitted before the chunk is counted.
    wire.on('message', () => {
      unread = 0;
    });
    stream.on('data', ({ length }: Buffer) => {
      all += length;
      unread += length;
      if (all <= maxAnswerBytes && unread <= maxMessageBytes) return;
      reject(new AnswerTooLarge('too much came back'));
      stream.destroy();
    });
    client.query(submittable(sql, resolve, reject));
  });
};

interface HttpTargetDeps {
  readonly egress: Pick<Egress, 'fetch'>;
}

interface HttpCall {
  readonly url: string;
  /** JSON text, sent as it is. */
  readonly payload: string;
  readonly scheduleId: string;
  /** The same for every repetition of the call: the receiver can recognize one. */
  readonly runId: string;
  readonly timeoutMs?: number;
}

// A slot is held meanwhile: as long as a webhook's receiver has.
const httpTimeoutMs = 15_000;
const keptBytes = 65_536;

/** The part of an answer that the job keeps. Bytes that are not UTF-8 are shown as U+FFFD. */
const resultOf = ({ status, body }: EgressResponse, began: number) => ({
  status,
  duration_ms: Math.round(performance.now() - began),
  ...(body.length > 0 && { body: body.toString('utf8') }),
});

const httpOutcomeOf = (response: EgressResponse, began: number): JobOutcome => {
  const result = resultOf(response, began);
  const { status } = response;
  if (status >= 200 && status < 300) return succeeded(result);
  return failed('http_status', `The address answered with status ${status}.`, result);
};

/** POSTs the payload. Redirects are answers like any other, and failures. */
export const runHttpTarget = async (
  { egress }: HttpTargetDeps,
  { url, payload, scheduleId, runId, timeoutMs = httpTimeoutMs }: HttpCall,
  signal: AbortSignal,
): Promise<JobOutcome> => {
  const began = performance.now();
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'plinth-cron/1',
    'idempotency-key': runId,
    'x-plinth-schedule-id': scheduleId,
  };
  const how = {
    for: 'platform',
    method: 'POST',
    headers,
    body: payload,
    timeoutMs,
    maxBytes: keptBytes,
    signal,
  } as const;
  try {
    return httpOutcomeOf(await egress.fetch(url, how), began);
  } catch (error) {
    if (error instanceof EgressRefused) return failed(error.code, error.message);
    if (error instanceof EgressFailed) return failed(`http_${error.reason}`, error.message);
    throw error;
  }
};

interface SqlTargetDeps extends ChangeListeners {
  readonly tenantDb: FenceDb;
}

interface SqlOrder {
  readonly projectId: string;
  readonly sql: string;
  readonly timeoutMs: number;
}

const sqlTimeoutMs = 30_000;

const failureOf = (error: unknown): JobOutcome => {
  if (error instanceof DatabaseError) return failed(error.code ?? 'sql_error', error.message);
  if (error instanceof AnswerTooLarge) {
    return failed(
      'result_too_large',
      'The SQL answered more than 16 MB, or one row of more than 1 MB. It was stopped.',
    );
  }
  // The SQL was sent: whether it took effect is not known, so it is not sent again.
  return failed('connection_lost', 'The connection to the database broke while the SQL ran.');
};

/** A statement that the server did not end itself may go on there, without anybody to read its result. */
const sqlOutcomeOf = async ({ tenantDb }: SqlTargetDeps, { projectId, sql }: SqlOrder, client: ClientBase) => {
  try {
    const { rowCount, command } = await runCounting(client, sql);
    return succeeded({ row_count: rowCount, command });
  } catch (error) {
    if (!(error instanceof DatabaseError)) await endSessionOf(tenantDb, { projectId, client });
    return failureOf(error);
  }
};

const changeOf = (sql: string): Change => ({ schema: mentionsSchemaChange(sql), rows: mayWriteRows(sql) });

/**
 * Runs SQL as the project's owner role, one or several statements, which then are one transaction. The session is
 * closed afterwards: its settings, locks and temporary tables outlive no run.
 * @throws what connecting throws: nothing was run yet
 */
const runSqlTarget = async (deps: SqlTargetDeps, order: SqlOrder, signal: AbortSignal): Promise<JobOutcome> => {
  const { projectId, sql, timeoutMs } = order;
  try {
    return await inFence(deps.tenantDb, { projectId, role: 'owner', timeoutMs, signal }, (client) =>
      sqlOutcomeOf(deps, order, client),
    );
  } finally {
    noteChange(deps, projectId, changeOf(sql));
  }
};

/** Fires a schedule's HTTP call or SQL. Once the call or the SQL was sent, whatever happens is its outcome. */
export const cronFireProcessor = (deps: HttpTargetDeps & SqlTargetDeps): Processor => ({
  run: (data, context) => {
    const { target, payload, schedule_id: scheduleId, run_id: runId, timeout_ms } = data as JobData<typeof cronFire>;
    const timeoutMs = Math.min(timeout_ms ?? Infinity, target.type === 'http' ? httpTimeoutMs : sqlTimeoutMs);
    return target.type === 'http'
      ? runHttpTarget(deps, { url: target.url, payload, scheduleId, runId, timeoutMs }, context.signal)
      : runSqlTarget(deps, { projectId: context.projectId, sql: target.sql, timeoutMs }, context.signal);
  },
});
