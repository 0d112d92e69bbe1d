import type { Operations } from '../../client/types.ts';

export type WholeUser = Operations['GET /projects/{project_id}/users/{uid}']['answer'];

/** The state of a user in one word. */
export const stateOf = (user: Pick<WholeUser, 'banned_until' | 'is_anonymous' | 'email_verified'>): string => {
  if (user.banned_until !== null) return 'banned';
  if (user.is_anonymous) return 'anonymous';
  return user.email_verified ? 'confirmed' : 'not confirmed';
};
