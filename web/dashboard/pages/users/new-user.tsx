import type { FormEvent } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

interface NewUserProps {
  readonly kind: 'new' | 'invite';
  readonly onMade: (id: string) => void;
  readonly onClose: () => void;
}

interface Given {
  readonly email: string;
  readonly password: string;
  readonly isVerified: boolean;
}

/** Makes a user with or without a password, or mails an invitation. */
export const NewUser = ({ kind, onMade, onClose }: NewUserProps) => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const make = useChange(
    ({ email, password, isVerified }: Given) =>
      kind === 'invite'
        ? call('POST /projects/{project_id}/users/invite', { params, body: { email } })
        : call('POST /projects/{project_id}/users', {
            params,
            body: { email, email_verified: isVerified, ...(password !== '' && { password }) },
          }),
    { stale: [['users', project.id]], onDone: ({ id }) => onMade(id) },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({
      email: fieldOf(form, 'email'),
      password: fieldOf(form, 'password'),
      isVerified: fieldOf(form, 'verified') === 'on',
    });
  };
  return (
    <Dialog title={kind === 'invite' ? 'Invite a user' : 'New user'} onClose={onClose}>
      <form onSubmit={submit}>
        {kind === 'invite' && (
          <p className="muted">A mail with a link is sent; the user chooses a password after opening it.</p>
        )}
        <label>
          E-mail
          <input name="email" type="email" required maxLength={320} autoComplete="off" />
        </label>
        {kind === 'new' && (
          <>
            <label>
              Password, or nothing: then the user signs in by links or providers
              <input name="password" type="password" maxLength={128} autoComplete="new-password" />
            </label>
            <label className="inline">
              <input name="verified" type="checkbox" defaultChecked />
              The address counts as confirmed
            </label>
          </>
        )}
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            {kind === 'invite' ? 'Send the invitation' : 'Create the user'}
          </button>
        </p>
      </form>
    </Dialog>
  );
};
