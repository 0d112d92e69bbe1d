import { type ClientBase, escapeIdentifier } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { checkName, expressionSql } from './columns.ts';
import { describeTable, nearestHint, requireTable } from './describe.ts';
import { type SchemaChange, publicName } from './table-changes.ts';

type Role = 'public' | 'anon' | 'authenticated';

export interface NewPolicy {
  readonly name: string;
  readonly command: 'all' | 'select' | 'insert' | 'update' | 'delete';
  readonly permissive: boolean;
  readonly roles: readonly Role[];
  /** Which rows are seen. */
  readonly using?: string | undefined;
  /** Which rows may be written. */
  readonly check?: string | undefined;
}

export interface PolicyPatch {
  readonly name?: string | undefined;
  readonly roles?: readonly Role[] | undefined;
  readonly using?: string | undefined;
  readonly check?: string | undefined;
}

const clauses = ({ roles, using, check }: PolicyPatch): string =>
  [
    roles === undefined ? '' : ` to ${roles.join(', ')}`,
    using === undefined ? '' : ` using ${expressionSql(using, 'using')}`,
    check === undefined ? '' : ` with check ${expressionSql(check, 'check')}`,
  ].join('');

/** Creates a policy. It has no effect until row-level security of the table is on. */
export const createPolicy =
  (table: string, policy: NewPolicy): SchemaChange =>
  async (client) => {
    await requireTable(client, table);
    checkName(policy.name, 'name');
    const { name, permissive, command } = policy;
    const kind = permissive ? '' : ' as restrictive';
    return [`create policy ${escapeIdentifier(name)} on ${publicName(table)}${kind} for ${command}${clauses(policy)}`];
  };

const requirePolicy = async (client: ClientBase, table: string, name: string): Promise<void> => {
  await requireTable(client, table);
  const { row_level_security: rls } = await describeTable(client, table);
  const names = rls.policies.map((policy) => policy.name);
  if (names.includes(name)) return;
  throw new ServiceError('not_found', `There is no policy ${JSON.stringify(name)}.`, nearestHint(name, names));
};

/** Changes a policy; its command stays. */
export const alterPolicy =
  (table: string, name: string, patch: PolicyPatch): SchemaChange =>
  async (client) => {
    await requirePolicy(client, table, name);
    const head = `alter policy ${escapeIdentifier(name)} on ${publicName(table)}`;
    const changed = clauses(patch);
    const statements = changed === '' ? [] : [`${head}${changed}`];
    if (patch.name !== undefined) {
      checkName(patch.name, 'name');
      statements.push(`${head} rename to ${escapeIdentifier(patch.name)}`);
    }
    if (statements.length > 0) return statements;
    throw new ServiceError('validation_failed', 'The body names nothing to change.');
  };

/** Drops a policy. */
export const dropPolicy =
  (table: string, name: string): SchemaChange =>
  async (client) => {
    await requirePolicy(client, table, name);
    return [`drop policy ${escapeIdentifier(name)} on ${publicName(table)}`];
  };
