import { hash } from 'node:crypto';
import { type Client, type ClientBase, DatabaseError } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { serverAnswers } from '#lib/postgres/server-answers.ts';
import { withinBytes } from '#lib/postgres/within-bytes.ts';
import { createSilenceWatch, probeMs } from '#lib/silence-watch.ts';
import type { TenantDb } from '#lib/tenant-db.ts';
import { AuthError } from './errors.ts';

/** The rows of one statement. */
type Rows<T> = readonly T[];

type Ask = <T extends object>(projectId: string, sql: string, values?: readonly unknown[]) => Promise<Rows<T>>;

/**
 * The two ways to the users in a project's database (decision 054). Every statement is one transaction; statements
 * name all schemas, since nothing of the project's is to be found in their place.
 * Both throw a ServiceError `payload_too_large` beyond 4 MB of rows.
 */
export interface AuthDb {
  /** Passwords, sessions and identities; only reads `auth.users`. */
  readonly secrets: Ask;
  /**
   * Writes `auth.users`, and so runs the project's own triggers on it; reads nothing else.
   * @throws {AuthError} `unexpected_failure` when a trigger of the project failed
   */
  readonly users: Ask;
}

const foreignSchema = (): ServiceError =>
  new ServiceError('conflict', 'The project has a schema auth of its own, and so no users of its application.', {
    hint: 'A new project has the platform’s own schema auth.',
  });

const locked = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'The table auth.users is locked by a transaction of the project.', {
    headers: { 'Retry-After': '2' },
  });

/** The database takes no connections, or has another name for the moment. */
const away = (cause: DatabaseError): ServiceError =>
  new ServiceError('dependency_unavailable', 'The database of the project is away. Try again shortly.', {
    headers: { 'Retry-After': '2' },
    cause,
  });
const awayCodes = new Set(['55000', '3D000']);

/** Undefined table, column, function or schema, or no right to it: the schema is not the platform's. */
const missing = new Set(['42P01', '42703', '42883', '3F000', '42501']);
const lockNotAvailable = '55P03';

/** The message tells a missing schema of ours from what a trigger of the project missed. */
const isAboutSchema = ({ message }: DatabaseError): boolean => /\bschema "?auth"?|"auth\.|\bauth\.\w+\(/.test(message);

/** Classes that say that the server, and no trigger of the project's, could not do it. */
const serverClasses = /^(08|40|53|57|58|XX)/;

const failedTrigger = (error: DatabaseError): AuthError =>
  new AuthError('unexpected_failure', `A trigger or reference of the project refused the change (${error.code}).`, {
    hint: 'Triggers on auth.users need SECURITY DEFINER to write to other tables.',
    cause: error,
  });

const stillReferred = (error: DatabaseError): AuthError =>
  new AuthError('conflict', 'Rows of the project still refer to this user.', {
    hint: 'Delete them first, or let them refer to auth.users on delete cascade.',
    cause: error,
  });
const foreignKeyViolation = '23503';

/** Unique violations are the caller's to explain. */
const uniqueViolation = '23505';

const full = (cause: DatabaseError): ServiceError =>
  new ServiceError('plan_limit_exceeded', 'The database of the project is full.', {
    hint: 'A larger plan holds more; deleting makes room, too.',
    cause,
  });
/** The platform's own limits of a project's database (migrations/project/0004_limits.sql). */
const limitClass = /^PLL/;

const explainedWrite = (error: DatabaseError): unknown => {
  if (limitClass.test(error.code ?? '')) return full(error);
  if (error.code === uniqueViolation && error.schema === 'auth') return error;
  if (error.code === foreignKeyViolation) return stillReferred(error);
  return serverClasses.test(error.code ?? '') ? error : failedTrigger(error);
};

const explained = (error: unknown, runsTriggers: boolean): unknown => {
  if (error instanceof AnswerTooLarge) return tooLarge();
  if (!(error instanceof DatabaseError) || error.code === undefined) return error;
  if (error.code === lockNotAvailable) return locked();
  if (awayCodes.has(error.code)) return away(error);
  if (missing.has(error.code) && (!runsTriggers || isAboutSchema(error))) return foreignSchema();
  return runsTriggers ? explainedWrite(error) : error;
};

/** The bytes of one answer: 4 KB for each of a thousand users, and parsed within some 100 ms. */
const maxAnswerBytes = 4 * 1024 * 1024;

const tooLarge = (): ServiceError =>
  new ServiceError('payload_too_large', `What was read of the project’s users is more than ${maxAnswerBytes} bytes.`, {
    hint: 'Ask for fewer users at a time (per_page, limit), or keep less metadata of each.',
  });

/** By statement: prepared once for each connection, since planning a sign-in takes longer than doing it. */
const names = new Map<string, string>();

const nameOf = (sql: string): string => {
  const known = names.get(sql);
  if (known !== undefined) return known;
  const name = `auth-${hash('sha256', sql).slice(0, 16)}`;
  names.set(sql, name);
  return name;
};

type Watch = ReturnType<typeof createSilenceWatch>;

/** By server: a statement that no server answers any more fails within 2 s, and gives its connection up. */
const watches = new Map<string, Watch>();

const watchOf = (client: ClientBase): Watch => {
  const { host, port } = client as Client;
  const name = `${host}:${port}`;
  const present = watches.get(name);
  if (present !== undefined) return present;
  const watch = createSilenceWatch(() => serverAnswers({ host, port }, probeMs()));
  watches.set(name, watch);
  return watch;
};

const asking =
  (tenantDb: Pick<TenantDb, 'use'>, role: 'auth' | 'users'): Ask =>
  async <T extends object>(projectId: string, sql: string, values: readonly unknown[] = []) => {
    try {
      return await tenantDb.use(projectId, role, async (client: ClientBase) => {
        const query = { name: nameOf(sql), text: sql, values: [...values] };
        const { rows } = await withinBytes(client, maxAnswerBytes, () => watchOf(client)(client.query<T>(query)));
        return rows;
      });
    } catch (error) {
      throw explained(error, role === 'users');
    }
  };

export const createAuthDb = (tenantDb: Pick<TenantDb, 'use'>): AuthDb => ({
  secrets: asking(tenantDb, 'auth'),
  users: asking(tenantDb, 'users'),
});
