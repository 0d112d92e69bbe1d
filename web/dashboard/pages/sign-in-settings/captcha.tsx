import { type FormEvent, useRef, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { Conflict } from '../../components/conflict.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Field } from '../../components/field.tsx';
import { type Change, type Settings, comparable, useSettingsEdit } from './auth-settings.ts';
import { Trial } from './trial.tsx';

type Given = NonNullable<Change['captcha']>;

const names = { turnstile: 'Cloudflare Turnstile', hcaptcha: 'hCaptcha' } as const;

/** An empty secret stands for the one that is kept: it goes back as the API has masked it. */
const givenIn = (form: HTMLFormElement, { captcha }: Settings): Given => ({
  provider: fieldOf(form, 'captcha_provider') as Given['provider'],
  site_key: fieldOf(form, 'site_key') || null,
  secret: fieldOf(form, 'captcha_secret') || (captcha?.secret ?? ''),
  verify_url: fieldOf(form, 'verify_url') || null,
});

interface FieldsProps {
  readonly settings: Settings;
  readonly error: unknown;
}

const Fields = ({ settings: { captcha }, error }: FieldsProps) => (
  <>
    <Field label="Provider" at="captcha.provider" error={error}>
      {(given) => (
        <select {...given} name="captcha_provider" defaultValue={captcha?.provider ?? 'turnstile'}>
          {Object.entries(names).map(([id, name]) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
    <Field label="Site key, which your application shows to the provider" at="captcha.site_key" error={error}>
      {(given) => (
        <input
          {...given}
          name="site_key"
          maxLength={200}
          defaultValue={captcha?.site_key ?? ''}
          autoComplete="off"
          spellCheck={false}
        />
      )}
    </Field>
    <Field
      label={captcha === null ? 'Secret' : 'Secret; empty: the present one stays'}
      at="captcha.secret"
      error={error}
    >
      {(given) => (
        <input
          {...given}
          name="captcha_secret"
          type="password"
          required={captcha === null}
          maxLength={500}
          placeholder={captcha?.secret}
          autoComplete="off"
        />
      )}
    </Field>
    <Field
      label="Another service that answers in the same form; empty: the provider’s own"
      at="captcha.verify_url"
      error={error}
    >
      {(given) => (
        <input {...given} name="verify_url" type="url" maxLength={2048} defaultValue={captcha?.verify_url ?? ''} />
      )}
    </Field>
  </>
);

interface DialogProps {
  readonly settings: Settings;
  readonly onClose: () => void;
}

const CaptchaDialog = ({ settings, onClose }: DialogProps) => {
  const { project } = useProject();
  const form = useRef<HTMLFormElement>(null);
  const [epoch, setEpoch] = useState(0);
  const edit = useSettingsEdit(settings, onClose);
  const changeOf = (): Change => (form.current === null ? {} : { captcha: givenIn(form.current, edit.base) });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    edit.save(changeOf());
  };
  const ask = () => {
    const { captcha } = changeOf();
    if (!captcha) throw new Error('There is nothing to test.');
    return call('POST /projects/{project_id}/auth/settings/captcha/test', {
      params: { project_id: project.id },
      body: { captcha },
    });
  };
  const takeTheirs = (): void => {
    edit.takeTheirs();
    setEpoch(epoch + 1);
  };
  return (
    <Dialog title="Captcha" onClose={onClose}>
      <form ref={form} onSubmit={submit}>
        <Fields key={epoch} settings={edit.base} error={edit.error} />
        <Trial label="Test it" good="The provider answers, and does not object to the secret." ask={ask} fields={[]} />
        {edit.error && <Failure error={edit.error} fields={['captcha']} />}
        {edit.theirs !== null && (
          <Conflict
            what="The settings were"
            before={comparable(edit.base)}
            now={comparable(edit.theirs)}
            onKeep={() => edit.saveOver(changeOf())}
            onTake={takeTheirs}
          />
        )}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={edit.isPending}>
            Save the captcha
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const Remove = ({ settings, onClose }: DialogProps) => {
  const edit = useSettingsEdit(settings, onClose);
  return (
    <Confirm
      title="Ask for no captcha?"
      action="Remove the captcha"
      onConfirm={() => edit.saveOver({ captcha: null })}
      onClose={onClose}
    >
      <p>Programs can sign up then, and try passwords within the limits of failed attempts. The secret is deleted.</p>
      {edit.error && <Failure error={edit.error} />}
      {edit.theirs !== null && (
        <p role="alert">Somebody else has changed the settings meanwhile. Remove it again if you still want to.</p>
      )}
    </Confirm>
  );
};

const Facts = ({ captcha }: { readonly captcha: NonNullable<Settings['captcha']> }) => (
  <dl className="facts">
    <dt>Provider</dt>
    <dd>{names[captcha.provider]}</dd>
    <dt>Site key</dt>
    <dd>{captcha.site_key === null ? '–' : <code>{captcha.site_key}</code>}</dd>
    <dt>Secret</dt>
    <dd>
      <code>{captcha.secret}</code>
    </dd>
    {captcha.verify_url !== null && (
      <>
        <dt>Asked at</dt>
        <dd>
          <code>{captcha.verify_url}</code>
        </dd>
      </>
    )}
  </dl>
);

interface CaptchaProps {
  readonly settings: Settings;
  readonly mayWrite: boolean;
}

/** The service that tells people from programs. */
export const Captcha = ({ settings, mayWrite }: CaptchaProps) => {
  const [opened, setOpened] = useState<'edit' | 'remove' | null>(null);
  const { captcha } = settings;
  const close = (): void => setOpened(null);
  return (
    <section aria-label="Captcha">
      <div className="row">
        <h2>Captcha</h2>
        {mayWrite && (
          <button type="button" onClick={() => setOpened('edit')}>
            {captcha === null ? 'Set up a captcha' : 'Change the captcha'}
          </button>
        )}
        {mayWrite && captcha !== null && (
          <button type="button" onClick={() => setOpened('remove')}>
            Remove
          </button>
        )}
      </div>
      {captcha === null ? <p className="empty">No captcha is asked for.</p> : <Facts captcha={captcha} />}
      <p className="muted">
        It is asked for at sign-up, at sign-in with a password and before a mail is sent by <code>auth/v1</code>; the
        hosted pages have none. While the provider does not answer within 5 seconds nobody gets in by these ways: calls
        are answered with 503, and signing in by a provider, and sign-ins that are there, go on.
      </p>
      {opened === 'edit' && <CaptchaDialog settings={settings} onClose={close} />}
      {opened === 'remove' && <Remove settings={settings} onClose={close} />}
    </section>
  );
};
