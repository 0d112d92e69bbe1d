import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** Invites that one address may be sent in a day, whoever invites it. */
const maxToAddress = 5;
/** Invites that one organization may have sent in an hour. */
const maxOfOrganization = 200;

const tooMany = (message: string, seconds: number): ServiceError =>
  new ServiceError('rate_limited', message, { headers: { 'Retry-After': String(seconds) } });

/**
 * Before an invite is mailed: an address is not to be flooded, by one organization or by many.
 * @throws {ServiceError} `rate_limited`
 */
export const requireRoomForInvite = async (
  db: Queryable,
  { orgId, to }: { readonly orgId: string; readonly to: string },
): Promise<void> => {
  const sent = await one(
    db.query<{ to_address: number; of_organization: number }>(
      `select (select count(*) from platform_mail
           where kind = 'invite' and lower(recipient) = lower($2) and created_at > now() - interval '1 day') as to_address,
         (select count(*) from platform_mail
           where kind = 'invite' and org_id = $1 and created_at > now() - interval '1 hour') as of_organization`,
      [orgId, to],
    ),
  );
  if (sent.to_address >= maxToAddress) {
    throw tooMany(`This address has been sent ${maxToAddress} invites in a day. Nothing was sent.`, 24 * 3600);
  }
  if (sent.of_organization >= maxOfOrganization) {
    throw tooMany(`The organization has sent ${maxOfOrganization} invites in an hour. Nothing was sent.`, 3600);
  }
};

/** Confirmation links that one address may be sent in a day, whoever names it. */
const maxConfirmations = 5;

/** @throws {ServiceError} `rate_limited` */
export const requireRoomForConfirmation = async (db: Queryable, to: string): Promise<void> => {
  const { sent } = await one(
    db.query<{ sent: number }>(
      `select count(*) as sent from platform_mail
       where kind = 'confirm-email' and lower(recipient) = lower($1) and created_at > now() - interval '1 day'`,
      [to],
    ),
  );
  if (sent < maxConfirmations) return;
  throw tooMany(`This address has been sent ${maxConfirmations} links in a day. Nothing was sent.`, 24 * 3600);
};
