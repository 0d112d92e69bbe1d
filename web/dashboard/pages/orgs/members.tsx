import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useOrg } from '../../client/org.ts';
import { type Role, atLeast } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { roleWords } from './role-words.ts';

type Member = Operations['GET /team/members']['answer'][number];

const roles: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

const useStale = () => {
  const { org_id: id } = useOrg();
  return [['members', id], ['orgs']];
};

/** The roles that somebody may give: nobody gives more than they have. */
const grantable = (own: Role): readonly Role[] => roles.filter((role) => atLeast(own, role));

const RoleChoice = ({ defaultRole }: { readonly defaultRole: Role }) => {
  const { role: own, org_id: id } = useOrg();
  const [chosen, setChosen] = useState<Role>(defaultRole);
  return (
    <>
      <label>
        Role
        <select name="role" value={chosen} onChange={({ target }) => setChosen(target.value as Role)}>
          {grantable(own).map((role) => (
            <option key={role}>{role}</option>
          ))}
        </select>
      </label>
      <p className="muted">
        {roleWords[chosen]} <Link href={`/orgs/${id}/roles`}>All that each role may do</Link>
      </p>
    </>
  );
};

const Invite = ({ onClose }: { readonly onClose: () => void }) => {
  const { headers } = useOrg();
  const invite = useChange(
    (body: { readonly email: string; readonly role: Role }) => call('POST /team/invite', { headers, body }),
    { stale: useStale() },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    invite.mutate({ email: fieldOf(form, 'email'), role: fieldOf(form, 'role') as Role });
  };
  if (invite.data !== undefined)
    return (
      <Dialog title="Invited" onClose={onClose}>
        <p>
          A mail is on its way to <bdi>{invite.data.email}</bdi>, if this installation sends mail. The link works once,
          for 7 days:
        </p>
        <Copyable label="Link" text={invite.data.invite_link ?? ''} />
        <p className="row end">
          <button type="button" className="primary" onClick={onClose}>
            Close
          </button>
        </p>
      </Dialog>
    );
  return (
    <Dialog title="Invite a colleague" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          E-mail
          <input name="email" type="email" required maxLength={320} autoComplete="off" />
        </label>
        <RoleChoice defaultRole="developer" />
        {invite.error && <Failure error={invite.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={invite.isPending}>
            Invite
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const ChangeRole = ({ member, onClose }: { readonly member: Member; readonly onClose: () => void }) => {
  const { headers } = useOrg();
  const change = useChange(
    (role: Role) => call('PATCH /team/members/{id}/role', { headers, params: { id: member.id }, body: { role } }),
    { stale: useStale(), onDone: onClose },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    change.mutate(fieldOf(event.currentTarget, 'role') as Role);
  };
  return (
    <Dialog title="Change the role" onClose={onClose}>
      <form onSubmit={submit}>
        <p>
          <bdi>{member.email}</bdi> is {member.role} now. The new role counts at once.
        </p>
        <RoleChoice defaultRole={member.role} />
        {change.error && <Failure error={change.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={change.isPending}>
            Change the role
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const Remove = ({
  member,
  isSelf,
  onClose,
}: {
  readonly member: Member;
  readonly isSelf: boolean;
  readonly onClose: () => void;
}) => {
  const { headers, org_name: name } = useOrg();
  const [, go] = useLocation();
  const remove = useChange(() => call('DELETE /team/members/{id}', { headers, params: { id: member.id } }), {
    stale: useStale(),
    onDone: () => (isSelf ? go('/') : onClose()),
  });
  const isPending = member.status === 'pending';
  const title = isSelf ? `Leave ${name}?` : isPending ? 'Take back the invite?' : 'Remove the member?';
  return (
    <Confirm
      title={title}
      action={isSelf ? 'Leave' : isPending ? 'Take it back' : 'Remove'}
      onConfirm={() => remove.mutate(undefined)}
      onClose={onClose}
    >
      <p>
        <bdi>{member.email}</bdi>{' '}
        {isPending ? 'cannot use the link any more.' : `has no access to ${name} from then on.`}
      </p>
      {remove.error && <Failure error={remove.error} />}
    </Confirm>
  );
};

const Resend = ({ member }: { readonly member: Member }) => {
  const { headers } = useOrg();
  const resend = useChange(
    () => call('POST /team/members/{id}/resend', { headers, params: { id: member.id }, body: {} }),
    { stale: useStale() },
  );
  return (
    <>
      <button
        type="button"
        disabled={resend.isPending}
        aria-label={`Send the invite of ${member.email} again`}
        onClick={() => resend.mutate(undefined)}
      >
        Send again
      </button>
      {resend.error && <Failure error={resend.error} />}
      {resend.data !== undefined && (
        <Dialog title="Invited again" onClose={() => resend.reset()}>
          <p>The old link is dead. The new one works once, for 7 days:</p>
          <Copyable label="Link" text={resend.data.invite_link ?? ''} />
          <p className="row end">
            <button type="button" className="primary" onClick={() => resend.reset()}>
              Close
            </button>
          </p>
        </Dialog>
      )}
    </>
  );
};

type Opened = { readonly kind: 'invite' } | { readonly kind: 'role' | 'remove'; readonly member: Member } | null;

interface RowProps {
  readonly member: Member;
  readonly isSelf: boolean;
  readonly onOpen: (what: Opened) => void;
}

const MemberRow = ({ member, isSelf, onOpen }: RowProps) => {
  const { role } = useOrg();
  const isAdmin = atLeast(role, 'admin');
  // Nobody changes who has more than they have.
  const mayChange = isAdmin && atLeast(role, member.role);
  const isPending = member.status === 'pending';
  return (
    <tr>
      <td>
        <bdi>{member.email}</bdi>
        {isSelf && <span className="muted"> (you)</span>}
      </td>
      <td>
        <bdi>{member.full_name ?? '–'}</bdi>
      </td>
      <td>{member.role}</td>
      <td className={isPending ? 'muted' : undefined}>{isPending ? 'invited' : 'member'}</td>
      <td>
        <span className="row">
          {mayChange && (
            <button
              type="button"
              aria-label={`Change the role of ${member.email}`}
              onClick={() => onOpen({ kind: 'role', member })}
            >
              Role
            </button>
          )}
          {isAdmin && isPending && <Resend member={member} />}
          {(mayChange || isSelf) && (
            <button
              type="button"
              aria-label={isSelf ? 'Leave the organization' : `Remove ${member.email}`}
              onClick={() => onOpen({ kind: 'remove', member })}
            >
              {isSelf ? 'Leave' : 'Remove'}
            </button>
          )}
        </span>
      </td>
    </tr>
  );
};

/** The members of the organization, and who is invited. */
export const MembersPage = () => {
  const { org_id: id, role, headers } = useOrg();
  const [opened, setOpened] = useState<Opened>(null);
  const me = useQuery({ queryKey: ['me'], queryFn: () => call('GET /auth/me', {}) });
  const members = useQuery({ queryKey: ['members', id], queryFn: () => call('GET /team/members', { headers }) });
  const isSelf = (member: Member): boolean => member.status === 'active' && member.email === me.data?.email;
  const close = (): void => setOpened(null);
  return (
    <>
      <div className="row">
        <h2>Members</h2>
        {atLeast(role, 'admin') ? (
          <button type="button" className="primary" onClick={() => setOpened({ kind: 'invite' })}>
            Invite a colleague
          </button>
        ) : (
          <span className="muted">Admins and owners invite, change roles and remove.</span>
        )}
      </div>
      {members.error && <Failure error={members.error} onRetry={() => void members.refetch()} />}
      <Table caption="Members" isCaptionHidden columns={['E-mail', 'Name', 'Role', 'State', 'Change']}>
        {members.data?.map((member) => (
          <MemberRow key={member.id} member={member} isSelf={isSelf(member)} onOpen={setOpened} />
        ))}
      </Table>
      {opened?.kind === 'invite' && <Invite onClose={close} />}
      {opened?.kind === 'role' && <ChangeRole member={opened.member} onClose={close} />}
      {opened?.kind === 'remove' && <Remove member={opened.member} isSelf={isSelf(opened.member)} onClose={close} />}
    </>
  );
};
