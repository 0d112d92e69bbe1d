import { type Queryable, one } from '#lib/control-db.ts';
import type { Actor } from './actor.ts';

/**
 * The audit log of each organization. Triggers write it in the transaction of the change itself; whoever changes an
 * audited table says who acts (`actor.ts`). Here it is read, and gets the entries of accounts, which no trigger writes.
 */

interface AuditRow {
  readonly id: string;
  /** Null: of the organization itself, or of an account. */
  readonly project_id: string | null;
  /** Its address, agent and request stand beside it. */
  readonly actor: Pick<Actor, 'type' | 'id' | 'email'>;
  readonly action: string;
  readonly target_type: string;
  readonly target_id: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly ip: string | null;
  readonly user_agent: string | null;
  readonly request_id: string | null;
  readonly created_at: Date;
}

/** Which entries a list has; what is left out narrows nothing. */
export interface AuditQuery {
  readonly projectId?: string | undefined;
  /** The id or the e-mail address of who acted. */
  readonly actor?: string | undefined;
  /** An action, such as `project.delete`, or the beginning of some with a dot at its end: `project.` */
  readonly action?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** The last character of Unicode: no action that begins as the text does comes after the text with it. */
const last = '\u{10FFFF}';

/* Each set of conditions is a statement of its own, so that PostgreSQL goes by the index that fits. */
const conditionsOf = (orgId: string, query: AuditQuery): { sql: string; values: unknown[] } => {
  const values: unknown[] = [];
  const given = (value: unknown): string => `$${values.push(value)}`;
  const parts = [`org_id = ${given(orgId)}`];
  const { projectId, actor, action, since, until } = query;
  if (projectId !== undefined) parts.push(`project_id = ${given(projectId)}`);
  if (actor !== undefined) {
    const at = given(actor);
    parts.push(`(actor ->> 'id' = ${at} or actor ->> 'email' = ${at})`);
  }
  if (action?.endsWith('.') === true) {
    parts.push(`action ~>=~ ${given(action)} and action ~<~ ${given(action + last)}`);
  } else if (action !== undefined) parts.push(`action = ${given(action)}`);
  if (since !== undefined) parts.push(`created_at >= ${given(since)}`);
  if (until !== undefined) parts.push(`created_at < ${given(until)}`);
  return { sql: parts.join(' and '), values };
};

/** An organization's audit log, newest first. */
export const listAuditEntries = async (
  db: Queryable,
  orgId: string,
  query: AuditQuery,
): Promise<{ entries: AuditRow[]; total: number }> => {
  const { sql: condition, values } = conditionsOf(orgId, query);
  const entries = await db.query<AuditRow>(
    `select id, project_id, actor, action, target_type, target_id, before, after, ip, user_agent, request_id, created_at
     from audit_entries where ${condition} order by created_at desc, id
     limit $${values.length + 1} offset $${values.length + 2}`,
    [...values, query.limit, query.offset],
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from audit_entries where ${condition}`, values),
  );
  return { entries, total };
};

/** An event of an account that is no change of an audited table. */
type AccountAction =
  | 'sign_in.create'
  | 'sign_in.end'
  | 'user.password'
  | 'user.email'
  | 'user.delete'
  | 'factor.create'
  | 'factor.delete'
  | 'personal_token.create'
  | 'personal_token.delete'
  | 'device.approve'
  | 'device.deny';

interface AccountEntry {
  readonly actor: Actor;
  readonly action: AccountAction;
  readonly targetId: string;
  /** Details for readers; never a secret. */
  readonly after?: Readonly<Record<string, unknown>>;
}

/** For a member of several organizations the entry goes to their own one and to the oldest. */
const maxOrganizations = 50;

/** Writes an entry into the audit log of each organization that the user is a member of. */
export const noteAccount = async (
  db: Queryable,
  userId: string,
  { actor: { ip, user_agent: userAgent, request_id: requestId, ...actor }, action, targetId, after }: AccountEntry,
): Promise<void> => {
  await db.query(
    `insert into audit_entries (org_id, actor, action, target_type, target_id, after, ip, user_agent, request_id)
     select o.id, $2, $3, split_part($3, '.', 1), $4, $5, $6, $7, $8
     from members m join organizations o on o.id = m.org_id
     where m.user_id = $1 and m.status = 'active' and o.deleted_at is null
     order by o.own_of is not distinct from $1 desc, m.created_at limit ${maxOrganizations}`,
    [userId, JSON.stringify(actor), action, targetId, after ? JSON.stringify(after) : null, ip, userAgent, requestId],
  );
};

interface ProjectEntry {
  readonly actor: Actor;
  readonly action: string;
  readonly targetType: string;
  readonly targetId: string;
  /** Details for readers; never a secret. */
  readonly after?: object;
}

/** Writes an entry for a change of a project that is made outside the control database. */
export const noteInProject = async (
  db: Queryable,
  project: { readonly id: string; readonly org_id: string },
  { actor: { ip, user_agent: userAgent, request_id: requestId, ...actor }, after, ...entry }: ProjectEntry,
): Promise<{ readonly takeBack: () => Promise<void> }> => {
  const { id } = await one(
    db.query<{ id: string }>(
      `insert into audit_entries
         (org_id, project_id, actor, action, target_type, target_id, after, ip, user_agent, request_id)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning id`,
      [
        project.org_id,
        project.id,
        JSON.stringify(actor),
        entry.action,
        entry.targetType,
        entry.targetId,
        after ? JSON.stringify(after) : null,
        ip,
        userAgent,
        requestId,
      ],
    ),
  );
  return { takeBack: async () => void (await db.query('delete from audit_entries where id = $1', [id])) };
};
