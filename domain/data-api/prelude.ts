import type { Bound } from '#lib/postgres/pipeline.ts';
import { type TenantRole, statementTimeoutSeconds } from '#lib/tenant-db.ts';
import type { DataCaller, DataRun } from './data-api.ts';
import { quoteName } from './sql/sql.ts';

/** The login of the caller's connections. */
export const loginOf = (caller: DataCaller): TenantRole => (caller.role === 'service' ? 'service' : 'api');

const settings = `select pg_catalog.set_config('role', $1, true), pg_catalog.set_config('request.jwt.claims', $2, true),
  pg_catalog.set_config('transaction_read_only', $3, true), pg_catalog.set_config('statement_timeout', $4, true),
  pg_catalog.set_config('search_path', $5, true)`;

const requestSettings = `select pg_catalog.set_config('request.method', $1, true),
  pg_catalog.set_config('request.path', $2, true), pg_catalog.set_config('request.headers', $3, true)`;

const usualTimeoutMs = statementTimeoutSeconds.service * 1000;

const searchPathOf = (schema: string): string => (schema === 'public' ? 'public' : `${quoteName(schema)}, public`);

/** Whether everything is as a session of a secret key begins. */
const isUsual = ({ role, timeoutMs = usualTimeoutMs }: DataCaller, { request, schema = 'public' }: DataRun): boolean =>
  role === 'service' && request === undefined && timeoutMs === usualTimeoutMs && schema === 'public';

/** The statements that come before the caller's own: none for a secret key, whose role is the connection's. */
export const preludeOf = (caller: DataCaller, run: DataRun): Bound[] => {
  if (isUsual(caller, run)) return [];
  const { mode, request, schema = 'public' } = run;
  const role = caller.role === 'service' ? 'none' : caller.role;
  const timeout = String(caller.timeoutMs ?? usualTimeoutMs);
  const isReadOnly = mode === 'read' ? 'on' : 'off';
  const first = { text: settings, params: [role, caller.claims, isReadOnly, timeout, searchPathOf(schema)] };
  if (request === undefined) return [first];
  return [first, { text: requestSettings, params: [request.method, request.path, request.headers] }];
};
