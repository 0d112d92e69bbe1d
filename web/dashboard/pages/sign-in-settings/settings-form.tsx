import { type FormEvent, type ReactNode, useRef, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf, linesOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { changedPart } from '../../client/changed-part.ts';
import { Conflict } from '../../components/conflict.tsx';
import { Failure } from '../../components/failure.tsx';
import { Field } from '../../components/field.tsx';
import { type Change, type Settings, comparable, useSettingsEdit } from './auth-settings.ts';
import { Trial } from './trial.tsx';

const hour = 3600;
const day = 24 * hour;

/** The settings of a form as the API takes them; null where an empty field means none. */
const changeOf = (form: HTMLFormElement): Change => {
  const isOn = (name: string): boolean => fieldOf(form, name) === 'on';
  return {
    signup: fieldOf(form, 'signup') as Settings['signup'],
    confirm_email: isOn('confirm_email'),
    anonymous: isOn('anonymous'),
    mfa: fieldOf(form, 'mfa') as Settings['mfa'],
    password_min: Number(fieldOf(form, 'password_min')),
    breached_passwords: fieldOf(form, 'breached') === '' ? null : { url: fieldOf(form, 'breached') },
    site_url: fieldOf(form, 'site_url') || null,
    redirect_allow_list: linesOf(fieldOf(form, 'redirects')),
    session: {
      idle_s: Math.round(Number(fieldOf(form, 'idle')) * hour),
      absolute_s: Math.round(Number(fieldOf(form, 'absolute')) * day),
      single: isOn('single'),
    },
    branding: { logo_url: fieldOf(form, 'logo') || null, color: fieldOf(form, 'color') || null },
  };
};

/** Only what was changed here, so that a colleague's change of something else stays. */
const changedIn = (form: HTMLFormElement, base: Settings): Change =>
  changedPart(changeOf(form), base, ['session', 'branding']);

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

interface FieldsProps {
  readonly settings: Settings;
  readonly error: unknown;
}

const WhoFields = ({ settings }: FieldsProps) => (
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
  </>
);

const PasswordFields = ({ settings, error }: FieldsProps) => {
  const { project } = useProject();
  const list = useRef<HTMLInputElement>(null);
  return (
    <>
      <h2>Passwords</h2>
      <Field label="Fewest characters" at="password_min" error={error}>
        {(given) => (
          <input
            {...given}
            name="password_min"
            type="number"
            min={6}
            max={64}
            required
            defaultValue={settings.password_min}
          />
        )}
      </Field>
      <Field label="List of passwords from data breaches; empty: none is asked" at="breached_passwords" error={error}>
        {(given) => (
          <input
            {...given}
            ref={list}
            name="breached"
            type="url"
            maxLength={2048}
            defaultValue={settings.breached_passwords?.url ?? ''}
            placeholder="https://api.pwnedpasswords.com/range/"
          />
        )}
      </Field>
      <p className="muted">
        It gets five digits of a password’s SHA-1, never the password. Passwords on it are refused when they are chosen.
        While it does not answer within 2 seconds, passwords are taken.
      </p>
      <Trial
        label="Test the list"
        good="It answers, and lists known passwords."
        fields={[]}
        ask={() =>
          call('POST /projects/{project_id}/auth/settings/breached-passwords/test', {
            params: { project_id: project.id },
            body: { url: list.current?.value ?? '' },
          })
        }
      />
    </>
  );
};

const AddressFields = ({ settings, error }: FieldsProps) => (
  <>
    <h2>Where links lead to</h2>
    <Field label="Address of your application" at="site_url" error={error}>
      {(given) => (
        <input
          {...given}
          name="site_url"
          type="text"
          inputMode="url"
          maxLength={2048}
          defaultValue={settings.site_url ?? ''}
        />
      )}
    </Field>
    <Field
      label="Further allowed addresses, one a line; * stands for a part of the path, ** at the end for the rest"
      at="redirect_allow_list"
      error={error}
    >
      {(given) => (
        <textarea
          {...given}
          name="redirects"
          rows={4}
          spellCheck={false}
          defaultValue={settings.redirect_allow_list.join('\n')}
        />
      )}
    </Field>
  </>
);

const SessionFields = ({ settings, error }: FieldsProps) => (
  <>
    <h2>Sign-ins and their tokens</h2>
    <p className="muted">
      An access token works for an hour, whatever is set here. A client renews it until the sign-in ends. The tokens of
      a user who is banned, deleted or signed out stop working within a minute.
    </p>
    <Field label="Hours after which an unused sign-in ends" at="session.idle_s" error={error}>
      {(given) => (
        <input
          {...given}
          name="idle"
          type="number"
          min={0.016}
          step="any"
          required
          defaultValue={settings.session.idle_s / hour}
        />
      )}
    </Field>
    <Field label="Days after which every sign-in ends" at="session.absolute_s" error={error}>
      {(given) => (
        <input
          {...given}
          name="absolute"
          type="number"
          min={0.0006}
          step="any"
          required
          defaultValue={settings.session.absolute_s / day}
        />
      )}
    </Field>
    <Check name="single" on={settings.session.single}>
      A new sign-in of a user ends the earlier ones
    </Check>
  </>
);

const BrandingFields = ({ settings, error }: FieldsProps) => (
  <>
    <h2>Hosted pages</h2>
    <Field label="Address of a logo" at="branding.logo_url" error={error}>
      {(given) => (
        <input {...given} name="logo" type="url" maxLength={2048} defaultValue={settings.branding.logo_url ?? ''} />
      )}
    </Field>
    <Field label="Colour of buttons, such as #1f5fbf" at="branding.color" error={error}>
      {(given) => (
        <input
          {...given}
          name="color"
          pattern="#[0-9a-fA-F]{6}"
          defaultValue={settings.branding.color ?? ''}
          title="#, and six digits from 0 to 9 and a to f"
        />
      )}
    </Field>
  </>
);

const placed = ['password_min', 'breached_passwords', 'site_url', 'redirect_allow_list', 'session', 'branding'];

interface SettingsFormProps {
  readonly settings: Settings;
  readonly mayWrite: boolean;
}

/** The settings of sign-in that are kept together. */
export const SettingsForm = ({ settings, mayWrite }: SettingsFormProps) => {
  const form = useRef<HTMLFormElement>(null);
  // The fields begin anew with what was saved, or taken over.
  const [epoch, setEpoch] = useState(0);
  const [isSaved, setSaved] = useState(false);
  const edit = useSettingsEdit(settings, () => {
    setEpoch(epoch + 1);
    setSaved(true);
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const change = changedIn(event.currentTarget, edit.base);
    setSaved(Object.keys(change).length === 0);
    if (Object.keys(change).length > 0) edit.save(change);
  };
  const takeTheirs = (): void => {
    edit.takeTheirs();
    setEpoch(epoch + 1);
  };
  return (
    <form className="settings" ref={form} onSubmit={submit} onChange={() => setSaved(false)}>
      <fieldset disabled={!mayWrite} key={epoch}>
        <legend className="unseen">Settings of sign-in</legend>
        <WhoFields settings={edit.base} error={edit.error} />
        <PasswordFields settings={edit.base} error={edit.error} />
        <AddressFields settings={edit.base} error={edit.error} />
        <SessionFields settings={edit.base} error={edit.error} />
        <BrandingFields settings={edit.base} error={edit.error} />
      </fieldset>
      {edit.error && <Failure error={edit.error} fields={placed} />}
      {edit.theirs !== null && (
        <Conflict
          what="The settings were"
          before={comparable(edit.base)}
          now={comparable(edit.theirs)}
          onKeep={() => form.current !== null && edit.saveOver(changedIn(form.current, edit.base))}
          onTake={takeTheirs}
        />
      )}
      {mayWrite && (
        <p className="row">
          <button type="submit" className="primary" disabled={edit.isPending}>
            Save the settings
          </button>
          <span role="status">{isSaved ? 'Saved.' : ''}</span>
        </p>
      )}
    </form>
  );
};
