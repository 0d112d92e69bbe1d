import { quoted } from '#domain/mail/message.ts';
import type { Notice } from '#domain/mail/notices.ts';
import type { Tx } from '#lib/control-db.ts';
import type { Hopeless } from './record.ts';
import { hopelessDays } from './retry.ts';

/** Tells the admins of a project, in the transaction of what they are told of. */
export type Notify = (tx: Tx, notice: Notice) => Promise<void>;

const reasons = {
  gone: 'The receiver answered 410 (Gone).',
  failing: `Nothing but failures for ${hopelessDays} days.`,
} as const satisfies Record<Hopeless['reason'], string>;

interface Disabled {
  readonly project_id: string;
  readonly project: string;
  readonly name: string | null;
  readonly url: string | null;
  readonly kind: string;
  readonly reason: string;
}

const calledOf = ({ kind, name, url }: Disabled): string =>
  kind === 'http' ? quoted(name ?? url ?? 'a webhook') : `the ${kind} integration`;

/** A notice names so many; the project's list has all of them. */
const maxNamed = 10;

const noticeOf = (projectId: string, disabled: readonly Disabled[]): Notice => {
  const named = disabled.slice(0, maxNamed).map((row) => `${calledOf(row)}: ${row.reason}`);
  const more = disabled.length - named.length;
  return {
    projectId,
    subject: 'Webhooks were turned off',
    paragraphs: [
      `Deliveries of the project ${quoted(disabled[0]?.project ?? '')} have stopped to:`,
      [...named, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'),
      'What happens from now on is listed as skipped. Turn a webhook on again when its receiver works, and replay what it missed.',
      'Others that are turned off within an hour are not mailed: the list of webhooks says which are.',
    ],
  };
};

/**
 * Makes webhooks inactive whose receivers are gone or failed for too long, unless they have got another address or secret since; their admins are told. The transaction acts as
 * the system; what still waits for them is skipped when their throttles are pumped.
 */
export const disableHopeless = async (tx: Tx, hopeless: readonly Hopeless[], notify: Notify): Promise<void> => {
  if (hopeless.length === 0) return;
  const rows = await tx.query<Disabled>(
    `update webhooks w set is_active = false, disabled_reason = given.reason, updated_at = now()
     from unnest($1::uuid[], $2::text[], $3::int[]) as given (id, reason, version), projects p
     where w.id = given.id and w.version = given.version and w.is_active and w.deleted_at is null and p.id = w.project_id
     returning w.project_id, p.name as project, w.name, w.url, w.kind, given.reason`,
    [
      hopeless.map(({ webhookId }) => webhookId),
      hopeless.map(({ reason }) => reasons[reason]),
      hopeless.map(({ version }) => version),
    ],
  );
  for (const [projectId, disabled] of Map.groupBy(rows, (row) => row.project_id)) {
    await notify(tx, noticeOf(projectId, disabled));
  }
};
