import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { SecondFactor } from './second-factor.tsx';
import { Sessions } from './sessions.tsx';
import { Tokens } from './tokens.tsx';

const Name = ({ name }: { readonly name: string | null }) => {
  const save = useChange((to: string) => call('PATCH /auth/me', { body: { full_name: to === '' ? null : to } }), {
    stale: [['me']],
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    save.mutate(fieldOf(event.currentTarget, 'full_name').trim());
  };
  return (
    <form className="settings" onSubmit={submit}>
      <label>
        Name
        <input name="full_name" defaultValue={name ?? ''} maxLength={100} autoComplete="name" />
      </label>
      {save.error && <Failure error={save.error} />}
      <p className="row">
        <button type="submit" className="primary" disabled={save.isPending}>
          Save the name
        </button>
        <span role="status">{save.isSuccess ? 'Saved.' : ''}</span>
      </p>
    </form>
  );
};

const Address = ({ email, hasFactor }: { readonly email: string; readonly hasFactor: boolean }) => {
  const confirmation = useQuery({
    queryKey: ['me', 'confirmation'],
    queryFn: () => call('GET /auth/confirmation', {}),
  });
  const move = useChange(
    (given: { readonly email: string; readonly password: string; readonly code: string }) =>
      call('PATCH /auth/me', {
        body: {
          email: given.email,
          current_password: given.password,
          ...(given.code !== '' && { code: given.code }),
        },
      }),
    { stale: [['me']] },
  );
  const confirm = useChange(() => call('POST /auth/confirmation', { body: {} }), { stale: [] });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    move.mutate({
      email: fieldOf(form, 'email'),
      password: fieldOf(form, 'password'),
      code: fieldOf(form, 'code'),
    });
  };
  const { email_confirmed: isConfirmed, pending_email: pending } = confirmation.data ?? {};
  return (
    <>
      <p>
        <bdi>{email}</bdi>{' '}
        <span className={isConfirmed === true ? 'good' : 'muted'}>
          {isConfirmed === undefined ? '' : isConfirmed ? 'confirmed' : 'not confirmed'}
        </span>{' '}
        {isConfirmed === false && (
          <button type="button" disabled={confirm.isPending} onClick={() => confirm.mutate(undefined)}>
            Send a link to confirm it
          </button>
        )}
        <span role="status">{confirm.isSuccess ? ' Sent.' : ''}</span>
      </p>
      {confirm.error && <Failure error={confirm.error} />}
      {pending !== null && pending !== undefined && (
        <p className="muted">
          <bdi>{pending}</bdi> takes its place once the link that was mailed there is opened.
        </p>
      )}
      <details>
        <summary>Change the address</summary>
        <form className="settings" onSubmit={submit}>
          <label>
            New address
            <input name="email" type="email" required maxLength={320} autoComplete="email" />
          </label>
          <label>
            Present password
            <input name="password" type="password" required maxLength={128} autoComplete="current-password" />
          </label>
          {hasFactor && (
            <label>
              Code of your second factor
              <input name="code" required autoComplete="one-time-code" />
            </label>
          )}
          {move.error && <Failure error={move.error} />}
          <p className="row">
            <button type="submit" disabled={move.isPending}>
              Mail a link to the new address
            </button>
            <span role="status">{move.isSuccess ? 'The link is on its way.' : ''}</span>
          </p>
        </form>
      </details>
    </>
  );
};

const Password = ({ email }: { readonly email: string }) => {
  const change = useChange(
    (password: { readonly old: string; readonly new: string }) => call('PATCH /auth/me', { body: { password } }),
    { stale: [['my-sessions']] },
  );
  const [isUnlike, setUnlike] = useState(false);
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = { old: fieldOf(form, 'old'), new: fieldOf(form, 'new') };
    const isAlike = given.new === fieldOf(form, 'repeated');
    setUnlike(!isAlike);
    if (!isAlike) return;
    await change.mutateAsync(given).then(
      () => form.reset(),
      () => undefined,
    );
  };
  return (
    <form className="settings" onSubmit={(event) => void submit(event)}>
      <input type="email" className="unseen" value={email} readOnly tabIndex={-1} autoComplete="username" aria-hidden />
      <label>
        Present password
        <input name="old" type="password" required maxLength={128} autoComplete="current-password" />
      </label>
      <label>
        New password
        <input name="new" type="password" required minLength={8} maxLength={128} autoComplete="new-password" />
      </label>
      <label>
        New password again
        <input name="repeated" type="password" required maxLength={128} autoComplete="new-password" />
      </label>
      {isUnlike && (
        <p role="alert" className="bad">
          The two new passwords differ.
        </p>
      )}
      {change.error && <Failure error={change.error} />}
      <p className="row">
        <button type="submit" className="primary" disabled={change.isPending}>
          Change the password
        </button>
        <span role="status">{change.isSuccess ? 'Changed. You are signed out everywhere else.' : ''}</span>
      </p>
    </form>
  );
};

const DeleteAccount = ({ hasFactor }: { readonly hasFactor: boolean }) => {
  const [isOpen, setOpen] = useState(false);
  const remove = useChange(
    (body: { readonly password: string; readonly code?: string }) => call('DELETE /auth/me', { body }),
    { stale: [], onDone: () => globalThis.location.assign('/dashboard') },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const code = fieldOf(form, 'code');
    remove.mutate({ password: fieldOf(form, 'password'), ...(code !== '' && { code }) });
  };
  return (
    <>
      <button type="button" className="danger" onClick={() => setOpen(true)}>
        Delete the account
      </button>
      {isOpen && (
        <Dialog title="Delete your account?" onClose={() => setOpen(false)}>
          <form onSubmit={submit}>
            <p>
              Organizations that nobody else is a member of are deleted with all their projects. You leave the others;
              where you are the last owner, hand the organization over first.
            </p>
            <label>
              Password
              <input name="password" type="password" required maxLength={128} autoComplete="current-password" />
            </label>
            {hasFactor && (
              <label>
                Code of your second factor
                <input name="code" required autoComplete="one-time-code" />
              </label>
            )}
            {remove.error && <Failure error={remove.error} />}
            <p className="row end">
              <button type="button" onClick={() => setOpen(false)}>
                Cancel
              </button>
              <button type="submit" className="danger" disabled={remove.isPending}>
                Delete my account
              </button>
            </p>
          </form>
        </Dialog>
      )}
    </>
  );
};

/** The account of who is signed in: name, address, password, second factor, sign-ins and tokens. */
export const AccountPage = () => {
  const me = useQuery({ queryKey: ['me'], queryFn: () => call('GET /auth/me', {}) });
  const factors = useQuery({ queryKey: ['my-factors'], queryFn: () => call('GET /auth/factors', {}) });
  const error = me.error ?? factors.error;
  if (me.data === undefined || factors.data === undefined)
    return (
      <main id="content">
        <h1>Account</h1>
        {error ? <Failure error={error} /> : <p className="loading">Loading…</p>}
      </main>
    );
  const factor = factors.data.factors[0] ?? null;
  const hasFactor = factor !== null && factor.verified_at !== null;
  return (
    <main id="content">
      <h1>Account</h1>
      <h2>Name</h2>
      <Name name={me.data.full_name} />
      <h2>E-mail address</h2>
      <Address email={me.data.email} hasFactor={hasFactor} />
      <h2>Password</h2>
      <Password email={me.data.email} />
      <h2>Second factor</h2>
      <SecondFactor factor={hasFactor ? factor : null} codesLeft={factors.data.recovery_codes_left} />
      <Sessions />
      <Tokens />
      <h2>End of the account</h2>
      <DeleteAccount hasFactor={hasFactor} />
    </main>
  );
};
