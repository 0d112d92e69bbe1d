import type { DataCaller } from '../data-api.ts';
import { DataError } from '#domain/data-api/errors.ts';
import type { DataSchema } from '../schema/schema.ts';
import { callFunction, queryOf } from './call-function.ts';
import { inTimeZone } from './executor.ts';
import {
  negotiate,
  parsePreferences,
  type Dialect,
  type Executor,
  type RestAnswer,
  type RestRequest,
  type Work,
} from './request.ts';
import { describeProject } from './openapi.ts';
import { putRow, createRows, deleteRows, updateRows } from './write-rows.ts';
import { readRow, readRows } from './read-rows.ts';

const methodRefused = (method: string, isFunction: boolean): DataError =>
  isFunction
    ? new DataError(405, 'PGRST101', `Cannot use the ${method} method on RPC`)
    : new DataError(405, 'PGRST117', `Unsupported HTTP method: ${method}`);

const answerTable = (work: Work, table: string): Promise<RestAnswer> => {
  switch (work.request.method) {
    case 'GET':
    case 'HEAD':
      return readRows(work, table);
    case 'POST':
      return createRows(work, table);
    case 'PATCH':
      return updateRows(work, table, null);
    case 'PUT':
      return putRow(work, table);
    case 'DELETE':
      return deleteRows(work, table, null);
    default:
      throw methodRefused(work.request.method, false);
  }
};

const answerRow = (work: Work, table: string, id: string): Promise<RestAnswer> => {
  switch (work.request.method) {
    case 'GET':
    case 'HEAD':
      return readRow(work, table, id);
    case 'PATCH':
      return updateRows(work, table, id);
    case 'DELETE':
      return deleteRows(work, table, id);
    default:
      throw methodRefused(work.request.method, false);
  }
};

const answerFunction = (work: Work, name: string): Promise<RestAnswer> => {
  if (!['GET', 'HEAD', 'POST'].includes(work.request.method)) throw methodRefused(work.request.method, true);
  return callFunction(work, name);
};

const answerTarget = (work: Work): Promise<RestAnswer> => {
  const { target } = work.request;
  switch (target.kind) {
    case 'root':
      return describeProject(work);
    case 'table':
      return answerTable(work, target.table);
    case 'row':
      return answerRow(work, target.table, target.id);
    case 'function':
      return answerFunction(work, target.name);
  }
};

/** Where a request is answered, and with what it is understood. */
export interface Setting {
  readonly dialect: Dialect;
  readonly schema: DataSchema;
  readonly caller: DataCaller;
  readonly executor: Executor;
}

/**
 * Answers one request.
 * @throws {DataError} what is wrong with it
 * @throws what `Executor` throws
 */
export const answerRequest = async (request: RestRequest, setting: Setting): Promise<RestAnswer> => {
  const preferences = parsePreferences(request.header('prefer'));
  const isRoot = request.target.kind === 'root';
  return answerTarget({
    ...setting,
    request,
    preferences,
    form: negotiate(isRoot ? '' : request.header('accept')),
    executor: inTimeZone(setting.executor, preferences),
    query: queryOf(setting.schema, request, setting.dialect),
  });
};
