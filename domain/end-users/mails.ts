import { type EmailOrder, queueEmail } from '#domain/email/email.ts';
import type { TemplateType } from '#domain/email/templates.ts';
import type { Jobs } from '#domain/jobs/jobs.ts';
import { setTimeout } from 'node:timers/promises';
import type { Project } from '#domain/projects/store.ts';
import { projectColumns } from '#domain/projects/store.ts';
import { type ControlDb, maybeOne } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import { countMail } from './attempts.ts';
import type { EndUserDeps } from './end-users.ts';
import { type LinkKind, linkSeconds, makeLink, urlOfLink } from './links.ts';
import { appMetadataOf, insertUser, requireRoomForUser } from './sign-up.ts';
import { type EndUserAccount, findAccount, findAccountByEmail } from './users.ts';

/*
 * A request for a mail is one row, whether anybody has the address or not, so that neither the answer nor its time says
 * who is a user. The rest happens after the answer, here.
 */

/** A mail that somebody asks for. */
export interface MailOrder {
  readonly kind: 'signup' | 'invite' | 'magiclink' | 'recovery' | 'email_change' | 'reauthentication';
  /** The user, where the address is not known to be theirs yet. */
  readonly userId?: string;
  /** The user's present address; the new one of a user who has none. */
  readonly email: string;
  readonly redirectTo: string | null;
  readonly codeChallenge: string | null;
  /** With `magiclink`: a user to be made when nobody has the address. */
  readonly create?: { readonly data: Readonly<Record<string, unknown>> } | undefined;
}

const aboutOrder = (id: string): string => `end-user-mail:${id}`;

/** Requests of one project that wait: beyond that they are dropped, as those of an address are. */
const maxWaiting = 500;

interface RequestDeps {
  readonly db: Pick<ControlDb, 'query'>;
  readonly sealer: EndUserDeps['sealer'];
}

export const requestMail = async (
  { db, sealer }: RequestDeps,
  project: Pick<Project, 'id' | 'data_key'>,
  order: MailOrder,
): Promise<void> => {
  const id = newId();
  await db.query(
    `insert into end_user_mails (id, project_id, order_sealed) select $1, $2, $3
     where (select count(*) from end_user_mails where project_id = $2) < ${maxWaiting}`,
    [id, project.id, sealer(project).seal(aboutOrder(id), JSON.stringify(order))],
    'request-end-user-mail',
  );
};

type DueRow = Project & { readonly mail_id: string; readonly order_sealed: Buffer; readonly attempts: number };

/**
 * A process that dies with a mail leaves it to the next one after a minute; each failure doubles the time. Projects in $1
 * are being served.
 */
const takeSql = `
  with due as (
    update end_user_mails m set attempts = attempts + 1, next_at = now() + make_interval(mins => (2 ^ m.attempts)::int)
    where m.id = (
      select id from end_user_mails where next_at <= now() and project_id <> all ($1::uuid[])
      order by next_at limit 1 for update skip locked)
    returning m.id as mail_id, m.project_id, m.order_sealed, m.attempts)
  select d.mail_id, d.order_sealed, d.attempts, ${projectColumns} from due d join projects p on p.id = d.project_id`;

const maxAttempts = 8;

/** The mail of each kind of link, and the placeholder of its address; null: it brings the code alone. */
const mailOf: Readonly<Record<LinkKind, { readonly template: TemplateType; readonly url: string | null }>> = {
  signup: { template: 'signup', url: 'confirmation_url' },
  invite: { template: 'invite', url: 'invite_url' },
  magiclink: { template: 'magic-link', url: 'confirmation_url' },
  recovery: { template: 'password-reset', url: 'reset_url' },
  email_change_current: { template: 'email-change', url: 'confirmation_url' },
  email_change_new: { template: 'email-change', url: 'confirmation_url' },
  reauthentication: { template: 'reauthentication', url: null },
};

const nameOf = ({ raw_user_meta_data: data, email }: EndUserAccount): string => {
  const given = [data['full_name'], data['name']].find((name) => typeof name === 'string' && name.trim() !== '');
  return typeof given === 'string' ? given.slice(0, 100) : (email ?? '').replace(/@.*$/, '');
};

/** The links of a mail order for a user, each with its address. */
const linksFor = (order: MailOrder, user: EndUserAccount): { readonly kind: LinkKind; readonly to: string }[] => {
  const { email, new_email: changed } = user;
  if (email === null && order.kind !== 'email_change') return [];
  const isConfirmed = user.email_confirmed_at !== null;
  if (order.kind === 'signup' && isConfirmed) return [];
  if (order.kind !== 'email_change') return [{ kind: order.kind, to: email ?? order.email }];
  if (changed === null) return [];
  // An address that was never confirmed has no say.
  return [
    ...(isConfirmed && email !== null ? [{ kind: 'email_change_current', to: email } as const] : []),
    { kind: 'email_change_new', to: changed },
  ];
};

export interface MailSenderOptions {
  readonly endUsers: EndUserDeps;
  readonly db: ControlDb;
  readonly jobs: Pick<Jobs, 'run'>;
  /** On a developer's machine a mail without a server is kept for the mailbox page. */
  readonly local: boolean;
  readonly log: Log;
  /** The interval at which it polls for requests that another process left behind. */
  readonly everyMs?: number;
}

type SenderDeps = Omit<MailSenderOptions, 'everyMs'>;

const expiresIn = (kind: LinkKind): string => {
  const seconds = linkSeconds(kind);
  if (seconds > 86_400) return `${seconds / 86_400} days`;
  return seconds < 3600 ? `${seconds / 60} minutes` : '1 hour';
};

const sendLink = async (
  { endUsers, db, jobs, local }: SenderDeps,
  { project, order, user }: { readonly project: Project; readonly order: MailOrder; readonly user: EndUserAccount },
  { kind, to }: { readonly kind: LinkKind; readonly to: string },
): Promise<void> => {
  if (!(await countMail(endUsers.authDb, project.id, to, endUsers.isLimited))) return;
  const { redirectTo, codeChallenge } = order;
  const { token, code } = await makeLink(endUsers, project, {
    userId: user.id,
    kind,
    email: to,
    redirectTo,
    codeChallenge,
  });
  const { template, url } = mailOf[kind];
  const email: EmailOrder = {
    project,
    template,
    to,
    variables: {
      user_name: nameOf(user),
      user_email: user.email ?? to,
      ...(url !== null && { [url]: urlOfLink(endUsers, project.ref, { kind, token }).url }),
      code,
      expires_in: expiresIn(kind),
      ...(user.new_email !== null && { new_email: user.new_email }),
    },
    requestId: newId(),
  };
  await queueEmail({ db, projects: { sealer: endUsers.sealer }, local, jobs }, email);
};

/** Does nothing when somebody has the address. */
const makeUser = async (
  endUsers: EndUserDeps,
  project: Project,
  email: string,
  data: Readonly<Record<string, unknown>>,
): Promise<void> => {
  await requireRoomForUser(endUsers, project);
  const appMetadata = appMetadataOf('email');
  const proof = { confirmedAt: null, isProved: false };
  const user = { id: newId(), email, ...proof, userMetadata: data, appMetadata, passwordSealed: null };
  await insertUser(endUsers, project.id, user, true);
};

const userOf = async (
  endUsers: EndUserDeps,
  project: Project,
  { userId, email, create }: MailOrder,
): Promise<EndUserAccount | undefined> => {
  if (userId !== undefined) return findAccount(endUsers.authDb, project.id, userId);
  const known = await findAccountByEmail(endUsers.authDb, project.id, email);
  if (known !== undefined || create === undefined) return known;
  await makeUser(endUsers, project, email, create.data);
  return findAccountByEmail(endUsers.authDb, project.id, email);
};

const serve = async (deps: SenderDeps, { mail_id: id, order_sealed: sealed, ...project }: DueRow): Promise<void> => {
  const { endUsers } = deps;
  const order = JSON.parse(endUsers.sealer(project).open(aboutOrder(id), sealed)) as MailOrder;
  const user = await userOf(endUsers, project, order);
  if (user === undefined) return;
  for (const link of linksFor(order, user)) await sendLink(deps, { project, order, user }, link);
};

const serveOrPostpone = async (deps: SenderDeps, row: DueRow): Promise<void> => {
  const { db, log } = deps;
  try {
    await serve(deps, row);
  } catch (error) {
    log.warn({ err: error, project_id: row.id, attempts: row.attempts }, 'a mail to a user could not be queued');
    if (row.attempts < maxAttempts) {
      // Its other mails would fail as well, each after the time-outs of its database.
      await db.query(
        `update end_user_mails set next_at = now() + interval '30 seconds'
         where project_id = $1 and next_at < now() + interval '30 seconds'`,
        [row.id],
      );
      return;
    }
  }
  await db.query('delete from end_user_mails where id = $1', [row.mail_id]);
};

/** Never fails: a mail that is not even postponed comes again after its minute. */
const serveRow = (deps: SenderDeps, row: DueRow): Promise<void> =>
  serveOrPostpone(deps, row).catch((error: unknown) =>
    deps.log.warn({ err: error, project_id: row.id }, 'a request for a mail could not be put aside'),
  );

/**
 * Projects whose mails are made at the same time, each of them one by one: a trigger or lock of the project's own can
 * hold a mail up for 5 s, and must not hold up those of others.
 */
const maxProjects = 16;

/** Requests of other projects are looked for at this interval, in ms, while some are being served. */
const againMs = 500;

/** Serves all mails that are due. */
const serveDue = async (deps: SenderDeps, stopping: AbortSignal): Promise<void> => {
  const serving = new Map<string, Promise<void>>();
  while (!stopping.aborted) {
    const row = await maybeOne(deps.db.query<DueRow>(takeSql, [[...serving.keys()]], 'take-end-user-mail'));
    if (row === undefined && serving.size === 0) return;
    if (row !== undefined) {
      const { id } = row;
      serving.set(
        id,
        serveRow(deps, row).finally(() => serving.delete(id)),
      );
    }
    const isFull = serving.size >= maxProjects;
    if (isFull) await Promise.race(serving.values());
    else if (row === undefined)
      await Promise.race([...serving.values(), setTimeout(againMs, undefined, { ref: false })]);
  }
  await Promise.all(serving.values());
};

const usualMs = 30_000;

/** Queues mails that were asked for: `wake` says that there may be one. */
export const createMailSender = ({ everyMs = usualMs, ...deps }: MailSenderOptions): Poller => {
  const run = (stopping: AbortSignal): Promise<void> => serveDue(deps, stopping);
  return startPoller(run, {
    everyMs,
    firstInMs: everyMs,
    onFailure: (error) => deps.log.warn({ err: error }, 'mails to users could not be looked for'),
  });
};
