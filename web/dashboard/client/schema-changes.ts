import { call, send } from './api.ts';

/** A change of the schema, as the API takes it. */
export interface SchemaChange {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  /** Below the project's database: `/tables/people/indexes`. */
  readonly path: string;
  readonly body?: object;
}

const requestOf = (projectId: string, { method, path, body }: SchemaChange, query: string) => ({
  at: `/projects/${projectId}/db${path}${query === '' ? '' : `${path.includes('?') ? '&' : '?'}${query}`}`,
  init: {
    method,
    ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  },
});

/** The SQL that a change would run. @throws {ApiError} */
export const previewOf = async (projectId: string, change: SchemaChange, signal: AbortSignal): Promise<string> => {
  const { at, init } = requestOf(projectId, change, 'dry_run=true');
  const { body } = await send(at, { ...init, signal });
  return (body as { sql: string }).sql;
};

/** @throws {ApiError} */
export const applyChange = async (projectId: string, change: SchemaChange): Promise<void> => {
  const { at, init } = requestOf(projectId, change, '');
  await send(at, init);
};

/** `20261126195301`: migrations are applied in the order of their names. */
const versionNow = (): string => new Date().toISOString().replaceAll(/\D/g, '').slice(0, 14);

/** Applies SQL as a migration, which other installations of the project can repeat. @throws {ApiError} */
export const saveMigration = async (projectId: string, name: string, sql: string): Promise<void> => {
  await call('POST /projects/{project_id}/db/migrations', {
    params: { project_id: projectId },
    body: { migrations: [{ version: versionNow(), name, sql }] },
  });
};
