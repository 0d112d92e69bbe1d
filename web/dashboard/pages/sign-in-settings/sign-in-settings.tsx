import { useQuery } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { Providers } from './providers.tsx';

type Settings = Operations['GET /projects/{project_id}/auth/settings']['answer'];
type Change = Operations['PATCH /projects/{project_id}/auth/settings']['body'];

const hour = 3600;
const day = 24 * hour;

/** The settings of a form as the API takes them; null where an empty field means none. */
const changeOf = (form: HTMLFormElement): Change => {
  const isOn = (name: string): boolean => fieldOf(form, name) === 'on';
  const lines = fieldOf(form, 'redirects').split('\n');
  return {
    signup: fieldOf(form, 'signup') as Settings['signup'],
    confirm_email: isOn('confirm_email'),
    anonymous: isOn('anonymous'),
    mfa: fieldOf(form, 'mfa') as Settings['mfa'],
    password_min: Number(fieldOf(form, 'password_min')),
    breached_passwords: fieldOf(form, 'breached') === '' ? null : { url: fieldOf(form, 'breached') },
    site_url: fieldOf(form, 'site_url') || null,
    redirect_allow_list: lines.map((line) => line.trim()).filter((line) => line !== ''),
    session: {
      idle_s: Math.round(Number(fieldOf(form, 'idle')) * hour),
      absolute_s: Math.round(Number(fieldOf(form, 'absolute')) * day),
      single: isOn('single'),
    },
    branding: { logo_url: fieldOf(form, 'logo') || null, color: fieldOf(form, 'color') || null },
  };
};

const Check = ({
  name,
  on,
  children,
}: {
  readonly name: string;
  readonly on: boolean;
  readonly children: ReactNode;
}) => (
  <label className="inline spaced">
    <input type="checkbox" name={name} defaultChecked={on} />
    {children}
  </label>
);

const Fields = ({ settings }: { readonly settings: Settings }) => (
  <>
    <h2>Who may sign in</h2>
    <label>
      New users
      <select name="signup" defaultValue={settings.signup}>
        <option value="open">everybody may sign up</option>
        <option value="invite">only who is invited</option>
        <option value="closed">nobody new</option>
      </select>
    </label>
    <Check name="confirm_email" on={settings.confirm_email}>
      New users confirm their address by a mail first
    </Check>
    <Check name="anonymous" on={settings.anonymous}>
      Somebody may sign in without an address, as a new user each time
    </Check>
    <label>
      Second factor
      <select name="mfa" defaultValue={settings.mfa}>
        <option value="off">off</option>
        <option value="optional">users may set one up</option>
        <option value="required">users must set one up</option>
      </select>
    </label>
    <h2>Passwords</h2>
    <label>
      Fewest characters
      <input name="password_min" type="number" min={6} max={64} required defaultValue={settings.password_min} />
    </label>
    <label>
      List of passwords from data breaches; empty: none is asked
      <input
        name="breached"
        type="url"
        maxLength={2048}
        defaultValue={settings.breached_passwords?.url ?? ''}
        placeholder="https://api.pwnedpasswords.com/range/"
      />
    </label>
    <h2>Where links lead to</h2>
    <label>
      Address of your application
      <input name="site_url" type="text" inputMode="url" maxLength={2048} defaultValue={settings.site_url ?? ''} />
    </label>
    <label>
      Further allowed addresses, one a line; * stands for a part of the path, ** at the end for the rest
      <textarea name="redirects" rows={4} spellCheck={false} defaultValue={settings.redirect_allow_list.join('\n')} />
    </label>
    <h2>Sign-ins</h2>
    <label>
      Hours after which an unused sign-in ends
      <input name="idle" type="number" min={0.02} step="any" required defaultValue={settings.session.idle_s / hour} />
    </label>
    <label>
      Days after which every sign-in ends
      <input
        name="absolute"
        type="number"
        min={0.001}
        step="any"
        required
        defaultValue={settings.session.absolute_s / day}
      />
    </label>
    <Check name="single" on={settings.session.single}>
      A new sign-in of a user ends the earlier ones
    </Check>
    <h2>Hosted pages</h2>
    <label>
      Address of a logo
      <input name="logo" type="url" maxLength={2048} defaultValue={settings.branding.logo_url ?? ''} />
    </label>
    <label>
      Colour of buttons, such as #1f5fbf
      <input name="color" pattern="#[0-9a-fA-F]{6}" defaultValue={settings.branding.color ?? ''} />
    </label>
  </>
);

/** How users of the project's application sign in. */
export const SignInSettingsPage = () => {
  const { project, role } = useProject();
  const params = { project_id: project.id };
  const [isSaved, setSaved] = useState(false);
  const settings = useQuery({
    queryKey: ['auth-settings', project.id],
    queryFn: () => call('GET /projects/{project_id}/auth/settings', { params }),
    // A refetch must not replace the text that somebody is typing.
    refetchOnWindowFocus: false,
  });
  const save = useChange((body: Change) => call('PATCH /projects/{project_id}/auth/settings', { params, body }), {
    stale: [['auth-settings', project.id]],
    onDone: () => setSaved(true),
  });
  const mayWrite = atLeast(role, 'admin');
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    setSaved(false);
    save.mutate(changeOf(event.currentTarget));
  };
  return (
    <>
      <h1>Sign-in</h1>
      <p>
        {mayWrite ? 'How users of your application sign in.' : 'Admins and owners change how users sign in.'} The texts
        of the mails are at <Link href={`/projects/${project.id}/mail`}>Mail</Link>.
      </p>
      <Providers mayWrite={mayWrite} />
      {settings.error && <Failure error={settings.error} onRetry={() => void settings.refetch()} />}
      {settings.data !== undefined && (
        <form className="settings" onSubmit={submit} onChange={() => setSaved(false)}>
          <fieldset disabled={!mayWrite}>
            <legend className="unseen">Settings of sign-in</legend>
            <Fields settings={settings.data} />
          </fieldset>
          {save.error && <Failure error={save.error} />}
          {mayWrite && (
            <p className="row">
              <button type="submit" className="primary" disabled={save.isPending}>
                Save the settings
              </button>
              <span role="status">{isSaved ? 'Saved.' : ''}</span>
            </p>
          )}
        </form>
      )}
    </>
  );
};
