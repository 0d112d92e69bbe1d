import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** Different names of events that all webhooks of a project may ask for together. */
const maxPatterns = 2000;

// One by one in their index, however many webhooks ask for each.
const knownSql = `
  with recursive known as (
    (select pattern from webhook_patterns where project_id = $1 order by pattern limit 1)
    union all
    select (select p.pattern from webhook_patterns p
            where p.project_id = $1 and p.pattern > k.pattern order by p.pattern limit 1)
    from known k where k.pattern is not null
  ) select pattern from known where pattern is not null`;

/** What the webhooks of a project ask for that are not deleted, each once. */
export const patternsOf = async (db: Queryable, projectId: string): Promise<string[]> => {
  const rows = await db.query<{ pattern: string }>(knownSql, [projectId], 'webhook-patterns');
  return rows.map(({ pattern }) => pattern);
};

const countNew = async (db: Queryable, projectId: string, events: readonly string[]): Promise<number> => {
  const { count } = await one(
    db.query<{ count: number }>(
      `select count(*) as count from unnest($2::text[]) as asked (pattern) where not exists (
         select from webhook_patterns p where p.project_id = $1 and p.pattern = asked.pattern)`,
      [projectId, events],
    ),
  );
  return count;
};

/**
 * Writes what a webhook asks for; undone, by the caller's transaction, when its project then asks for too many different
 * names. Only one that adds a name is refused.
 * @throws {ServiceError} `plan_limit_exceeded`
 */
export const withinPatterns = async (
  db: Queryable,
  { projectId, events }: { readonly projectId: string; readonly events: readonly string[] },
  write: () => Promise<void>,
): Promise<void> => {
  const added = await countNew(db, projectId, events);
  await write();
  // Whoever else changes patterns of the project waits from here on.
  if (added === 0 || (await patternsOf(db, projectId)).length <= maxPatterns) return;
  throw new ServiceError(
    'plan_limit_exceeded',
    `The webhooks of a project ask for at most ${maxPatterns} different names of events.`,
    { hint: 'Subscribe to groups in place of single names, such as `table.orders.*` or `db.*`.' },
  );
};
