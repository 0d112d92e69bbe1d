import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { AuthDb } from './auth-db.ts';
import { readAuthSettings } from './settings.ts';

interface SweepDeps {
  readonly db: Pick<ControlDb, 'query'>;
  readonly authDb: AuthDb;
  readonly log: Log;
}

/** Each project once a day. Only those that have signed a token can have anything to sweep. */
const dueSql = `
  with due as (
    select k.project_id from (select distinct project_id from project_signing_keys) k
      join projects p on p.id = k.project_id and p.deleted_at is null and p.status = 'active'
      left join end_user_sweeps s on s.project_id = k.project_id
    where s.swept_at is null or s.swept_at < now() - interval '1 day' limit $1)
  insert into end_user_sweeps as s (project_id) select project_id from due
  on conflict (project_id) do update set swept_at = now() where s.swept_at < now() - interval '1 day'
  returning project_id`;

const perRound = 20;
const rowsAtOnce = 5000;
/** A project with more than that to delete gets its next turn tomorrow. */
const maxSteps = 40;

/** Statements that delete at most $1 rows; for sign-ins $2 and $3 are their lifetimes in seconds. */
const deletions: readonly (readonly [string, boolean])[] = [
  [
    `delete from auth.sessions where id = any (array(select id from auth.sessions
       where rotated_at < now() - make_interval(secs => $2) or created_at < now() - make_interval(secs => $3)
         or not_after < now() limit $1))`,
    true,
  ],
  [
    `delete from auth.one_time_tokens where token_hash = any (array(
       select token_hash from auth.one_time_tokens where expires_at < now() limit $1))`,
    false,
  ],
  [
    `delete from auth.flow_codes where hash = any (array(
       select hash from auth.flow_codes where expires_at < now() - interval '1 day' limit $1))`,
    false,
  ],
  [
    `delete from auth.challenges where id = any (array(
       select id from auth.challenges where expires_at < now() limit $1))`,
    false,
  ],
  [
    `delete from auth.counts where key = any (array(
       select key from auth.counts where began_at < now() - interval '1 hour' limit $1))`,
    false,
  ],
  [
    `delete from auth.upstream_flows where hash = any (array(
       select hash from auth.upstream_flows where expires_at < now() limit $1))`,
    false,
  ],
  [
    `delete from auth.openid where (model, id) in (
       select model, id from auth.openid where expires_at < now() - interval '1 hour' limit $1)`,
    false,
  ],
];

const sweepProject = async ({ db, authDb }: SweepDeps, projectId: string): Promise<void> => {
  const { session } = await readAuthSettings(db, projectId);
  let steps = 0;
  for (const [sql, isOfSessions] of deletions) {
    const values = isOfSessions ? [rowsAtOnce, session.idle_s, session.absolute_s] : [rowsAtOnce];
    let deleted = rowsAtOnce;
    while (deleted === rowsAtOnce && steps < maxSteps) {
      deleted = (await authDb.secrets(projectId, `${sql} returning 1`, values)).length;
      steps += 1;
    }
  }
};

/** Deletes what has expired of sign-ins in the databases of some projects. */
export const sweepEndUsers = async (deps: SweepDeps): Promise<void> => {
  const due = await deps.db.query<{ project_id: string }>(dueSql, [perRound]);
  for (const { project_id: projectId } of due) {
    await sweepProject(deps, projectId).catch((error: unknown) =>
      deps.log.warn({ err: error, project_id: projectId }, 'the ended sign-ins of a project could not be swept'),
    );
  }
};
