import { ApiError, send } from '../../client/api.ts';
import { unitsOf } from '../../client/sql-text.ts';
import type { Row } from '../../client/values.ts';

/** The answer of one statement. */
export interface Result {
  readonly command: string | null;
  readonly rowCount: number;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly Row[];
  readonly isTruncated: boolean;
}

export interface Run {
  /** The text that ran, which may have been changed in the editor since. */
  readonly sql: string;
  readonly ms: number;
  readonly results: readonly Result[];
}

export interface RunRequest {
  readonly projectId: string;
  readonly sql: string;
  readonly isScript: boolean;
  readonly isReadOnly: boolean;
  /** All of it runs, and nothing is kept. */
  readonly isDryRun?: boolean;
  readonly isRemembered?: boolean;
}

interface QueryAnswer {
  readonly rows: readonly Row[];
  readonly row_count: number;
  readonly truncated?: boolean;
  readonly columns: Result['columns'];
  readonly command: string | null;
}

interface ScriptAnswer {
  readonly statements: readonly {
    readonly command: string | null;
    readonly row_count: number;
    readonly fields: Result['columns'];
    readonly rows: readonly Row[];
    readonly truncated: boolean;
  }[];
}

const readOnlyFirst = 'set transaction read only;\n';

const post = async (projectId: string, path: string, body: object, signal: AbortSignal): Promise<unknown> => {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal };
  return (await send(`/projects/${projectId}/db/${path}`, init, true)).body;
};

const runOne = async ({ projectId, sql, isReadOnly, isRemembered = true }: RunRequest, signal: AbortSignal) => {
  const body = { sql, read_only: isReadOnly, remember: isRemembered };
  const answer = (await post(projectId, 'query', body, signal)) as QueryAnswer;
  const { command, row_count: rowCount, columns, rows, truncated: isTruncated = false } = answer;
  return [{ command, rowCount, columns, rows, isTruncated }];
};

const runScript = async (request: RunRequest, signal: AbortSignal): Promise<Result[]> => {
  const { projectId, sql, isReadOnly, isDryRun = false, isRemembered = true } = request;
  const body = { sql: `${isReadOnly ? readOnlyFirst : ''}${sql}`, dry_run: isDryRun, remember: isRemembered };
  const { statements } = (await post(projectId, 'script', body, signal)) as ScriptAnswer;
  return statements.slice(isReadOnly ? 1 : 0).map(({ command, row_count: rowCount, fields, rows, truncated }) => ({
    command,
    rowCount,
    columns: fields,
    rows,
    isTruncated: truncated,
  }));
};

/** @throws {ApiError} */
export const run = async (request: RunRequest, signal: AbortSignal): Promise<Run> => {
  const began = performance.now();
  const results = await (request.isScript ? runScript : runOne)(request, signal);
  return { sql: request.sql, ms: performance.now() - began, results };
};

/** Where in the text that ran an error lies, in UTF-16 units; null: it names no place. */
export const placeOf = (error: unknown, { sql, isScript, isReadOnly }: RunRequest): number | null => {
  const position = error instanceof ApiError ? (error.details as { position?: unknown } | null)?.position : undefined;
  if (typeof position !== 'number') return null;
  return unitsOf(sql, position - 1 - (isScript && isReadOnly ? readOnlyFirst.length : 0));
};
