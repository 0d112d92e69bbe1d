import { noteAccount } from '#domain/audit/accounts.ts';
import type { Actor } from '#domain/audit/actor.ts';
import { dissolve } from '#domain/teams/ownership.ts';
import { type Membership, lockOrganizations, membershipsOf } from '#domain/teams/membership-store.ts';
import { deleteInvitesBy, deleteMember } from '#domain/teams/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { FactorDeps } from './codes.ts';
import { type Proof, acceptProof } from './proof.ts';
import { type User, deleteUser } from './store.ts';

/** The user's memberships, held back from changes. In the order in which all lock: organizations, then the user. */
const lockMemberships = async (deps: FactorDeps, user: User, proof: Proof): Promise<readonly Membership[]> => {
  const { db } = deps;
  const seen = await membershipsOf(db, user.id);
  await lockOrganizations(
    db,
    seen.map((membership) => membership.org_id),
  );
  await acceptProof(deps, user.id, proof);
  const ownMemberships = await membershipsOf(db, user.id);
  const isSame =
    ownMemberships.length === seen.length && ownMemberships.every(({ org_id: id }, i) => id === seen[i]?.org_id);
  if (!isSame) throw new ServiceError('conflict', 'Your organizations changed meanwhile.', { hint: 'Try again.' });
  return ownMemberships;
};

/** Others would be left without an owner. */
const requireNobodyLeftBehind = (memberships: readonly Membership[]): void => {
  const stuck = memberships.filter((each) => each.is_last_owner && each.others > 0);
  if (stuck.length === 0) return;
  throw new ServiceError('last_owner', 'You are the last owner of an organization with other members.', {
    details: stuck.map(({ org_id, org_name }) => ({ org_id, org_name })),
    hint: 'Transfer it to one of them, or delete it.',
  });
};

/**
 * Deletes an account: organizations of which the user is the only member go with their projects, from all others the user
 * is removed, with the invites that rest on their right. Needs a transaction.
 * @returns the projects, whose deletion is to be finished after the commit
 * @throws {ServiceError} `last_owner`, `invalid_credentials`, `factor_required`, `conflict`
 */
export const deleteAccount = async (
  deps: FactorDeps,
  user: User,
  { proof, actor }: { readonly proof: Proof; readonly actor: Actor },
): Promise<readonly string[]> => {
  const { db } = deps;
  const memberships = await lockMemberships(deps, user, proof);
  requireNobodyLeftBehind(memberships);
  await noteAccount(db, user.id, { actor, action: 'user.delete', targetId: user.id });
  const projects: string[] = [];
  for (const membership of memberships) {
    if (membership.is_last_owner) projects.push(...(await dissolve(db, membership.org_id, user.id)));
    else {
      await deleteMember(db, membership.id);
      await deleteInvitesBy(db, membership.org_id, user.id, []);
    }
  }
  await deleteUser(db, user.id);
  return projects;
};
