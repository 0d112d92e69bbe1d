import { type Queryable, one } from '#lib/control-db.ts';
import type { Actor } from './actor.ts';

export interface AuditRow {
  readonly id: string;
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

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** An organization's audit log, newest first. */
export const listAuditEntries = async (
  db: Queryable,
  orgId: string,
  { limit, offset }: Page,
): Promise<{ entries: AuditRow[]; total: number }> => {
  const entries = await db.query<AuditRow>(
    `select id, actor, action, target_type, target_id, before, after, ip, user_agent, request_id, created_at
     from audit_entries where org_id = $1 order by created_at desc, id limit $2 offset $3`,
    [orgId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from audit_entries where org_id = $1', [orgId]),
  );
  return { entries, total };
};
