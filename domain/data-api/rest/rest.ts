import type { DataCaller, DataDb, DataRun } from '../data-api.ts';
import { mayBeStale, toDataError } from '../errors.ts';
import { dataKeyOf, once } from '#domain/data-api/idempotency.ts';
import type { SchemaCache, DataSchema } from '../schema/schema.ts';
import { answerRequest } from './answer.ts';
import { BatchStopped, answerBatch, batchAnswer, stoppedAnswers } from './batch.ts';
import { directExecutor, joinedExecutor } from './executor.ts';
import {
  type Dialect,
  type Executor,
  type RestAnswer,
  type RestRequest,
  requireSameSchema,
  schemaNameOf,
} from './request.ts';
import { type BodyThreads, readBatch, withBodyRead } from './read-ahead.ts';
import type { Disconnection } from '#lib/disconnection.ts';

export interface RestDeps {
  readonly data: DataDb;
  readonly schemas: SchemaCache;
  readonly threads: BodyThreads;
  /** Called after a change, so that its events are fetched soon. */
  readonly changed: (projectId: string) => void;
}

export interface RestCall {
  readonly caller: DataCaller;
  readonly signal: Disconnection;
  readonly request: RestRequest;
  readonly dialect: Dialect;
  /** Schemas beside public that requests may name. */
  readonly exposed: readonly string[];
  /** For `request.headers` in SQL; asked where SQL of the project runs. */
  readonly headersJson: () => string;
}

const isRead = ({ method }: RestRequest): boolean => method === 'GET' || method === 'HEAD';

/**
 * Policies, triggers and functions may read the request; passing it to each statement of a secret key costs a tenth.
 */
export const runOf = ({ caller, request, signal, headersJson }: RestCall, schema: string): Omit<DataRun, 'mode'> => {
  const runsProjectSql = caller.role !== 'service' || request.target.kind === 'function';
  if (!runsProjectSql) return { signal, schema };
  return { signal, schema, request: { method: request.method, path: request.path, headers: headersJson() } };
};

/** Once more with the schema as it is now, when that may be why it failed. */
export const withFreshSchema = async <T>(
  { schemas }: Pick<RestDeps, 'schemas'>,
  { projectId, role }: DataCaller,
  name: string,
  attempt: (schema: DataSchema) => Promise<T>,
): Promise<T> => {
  const known = await schemas.get(projectId, role, name);
  try {
    return await attempt(known);
  } catch (error) {
    const isStale = mayBeStale(error instanceof BatchStopped ? error.cause : error);
    const newer = isStale ? await schemas.newer(projectId, known, role) : null;
    if (newer === null) throw error;
    return attempt(newer);
  }
};

/** In the transaction that keeps the answer for the request's `Idempotency-Key`, where it has one. */
const keyed = (
  { caller, request }: RestCall,
  executor: Executor,
  work: (executor: Executor) => Promise<RestAnswer>,
): Promise<RestAnswer> => {
  const header = request.method === 'POST' ? request.header('idempotency-key') : '';
  if (header === '') return work(executor);
  const { method, path, queryText, body } = request;
  const profile = request.header('content-profile');
  const how = ['prefer', 'accept', 'content-type'].map((name) => request.header(name));
  const key = dataKeyOf(header, caller, [
    method,
    path,
    queryText,
    [...how, ...(profile === '' ? [] : [profile])].join('\n'),
    body,
  ]);
  return executor.atomically('write', (one, rows) => once(one, key, () => work(joinedExecutor(one, rows))));
};

const finish = async (deps: RestDeps, call: RestCall, work: () => Promise<RestAnswer>): Promise<RestAnswer> => {
  try {
    const answer = await work();
    if (!isRead(call.request)) deps.changed(call.caller.projectId);
    return answer;
  } catch (error) {
    throw toDataError(error, call.caller);
  }
};

/**
 * Answers a request in PostgREST's dialect.
 * @throws {DataError} what is wrong with it, or what the server refused
 */
export const answerRest = (deps: RestDeps, call: RestCall): Promise<RestAnswer> => {
  const { caller, dialect } = call;
  return finish(deps, call, async () => {
    const name = schemaNameOf(call.request, call.exposed);
    const request = await withBodyRead(deps.threads, caller.projectId, call.request);
    const executor = directExecutor(deps.data, caller, runOf(call, name));
    return withFreshSchema(deps, caller, name, (schema) =>
      keyed(call, executor, (inner) => answerRequest(request, { dialect, schema, caller, executor: inner })),
    );
  });
};

/**
 * Answers several requests in one transaction, in order; what fails undoes all of them.
 * @param withRows paths of rows (`films/7`) are known
 * @throws {DataError} when it is no batch
 */
export const answerRestBatch = async (deps: RestDeps, call: RestCall, withRows: boolean): Promise<RestAnswer> => {
  const { caller, request, dialect } = call;
  const requests = await readBatch(deps.threads, { owner: caller.projectId, body: request.body, withRows });
  return finish(deps, call, async () => {
    const name = schemaNameOf(request, call.exposed);
    for (const one of requests) requireSameSchema(one, name);
    const executor = directExecutor(deps.data, caller, runOf(call, name));
    const attempt = (schema: DataSchema): Promise<RestAnswer> =>
      keyed(call, executor, (inner) =>
        inner.atomically('write', async (one, rows) =>
          batchAnswer(await answerBatch(requests, { dialect, schema, caller, executor: joinedExecutor(one, rows) })),
        ),
      );
    try {
      return await withFreshSchema(deps, caller, name, attempt);
    } catch (error) {
      if (!(error instanceof BatchStopped)) throw error;
      return batchAnswer(stoppedAnswers(error, requests.length));
    }
  });
};
