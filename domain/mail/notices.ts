import type { Queryable } from '#lib/control-db.ts';
import type { PlatformMail } from './platform-mail.ts';

/** The content of a notice to a project's admins. */
export interface Notice {
  readonly projectId: string;
  readonly subject: string;
  /** Plain text; those of `linkTo` are shown as buttons. */
  readonly paragraphs: readonly string[];
}

// An organization may have any number of admins; who reads the first of these notices tells the others.
const maxRecipients = 50;

/**
 * Writes to the admins and owners of a project's organization, in the transaction of what they are told of. Once an hour at
 * most: whoever makes things go wrong must not fill their mailboxes. `paragraphs` must hold no names as people wrote them
 * (`quoted`).
 */
export const noticeToAdmins = async (mail: PlatformMail, tx: Queryable, notice: Notice): Promise<void> => {
  const { projectId, subject, paragraphs } = notice;
  const rows = await tx.query<{ email: string }>(
    `select u.email from projects p join members m on m.org_id = p.org_id join users u on u.id = m.user_id
     where p.id = $1 and m.status = 'active' and m.role in ('owner', 'admin')
       and not exists (select from platform_mail o where o.project_id = p.id and o.created_at > now() - interval '1 hour')
     order by m.role desc, m.created_at limit $2`,
    [projectId, maxRecipients],
  );
  if (rows.length === 0) return;
  await mail.send(
    tx,
    ...rows.map(({ email }) => ({ kind: 'notice' as const, to: email, projectId, subject, paragraphs })),
  );
};
