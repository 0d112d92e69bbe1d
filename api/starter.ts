import type { Starter } from '#domain/jobs/store.ts';
import type { AnyCaller } from './call.ts';

/** The subject of an end user's token; undefined for the claims that stand for a key. */
const subjectOf = (claims: string): string | undefined => {
  const { sub } = JSON.parse(claims) as { sub?: unknown };
  return typeof sub === 'string' ? sub : undefined;
};

/** As whom the caller starts jobs. A token of a project's own user counts before the key that comes with it. */
export const starterOf = (who: AnyCaller): Starter => {
  const { user, key } = who;
  const caller = 'caller' in who ? who.caller : undefined;
  if (user) return { kind: 'dashboard', id: user.id };
  if ('isPublic' in who) return { kind: 'event', id: null };
  const subject = caller && subjectOf(caller.claims);
  if (subject !== undefined) return { kind: 'user', id: subject };
  if (key) return { kind: key.kind, id: key.id };
  return caller ? { kind: 'user', id: null } : { kind: 'dashboard', id: null };
};
