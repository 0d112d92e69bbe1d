import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

type Settings = NonNullable<Operations['GET /projects/{project_id}/email/smtp']['answer']>;
type Body = Operations['PUT /projects/{project_id}/email/smtp']['body'];

const bodyOf = (form: HTMLFormElement): Body => {
  const [password, key, domain] = [fieldOf(form, 'password'), fieldOf(form, 'dkim_key'), fieldOf(form, 'dkim_domain')];
  return {
    host: fieldOf(form, 'host'),
    port: Number(fieldOf(form, 'port')),
    username: fieldOf(form, 'username'),
    from_email: fieldOf(form, 'from_email'),
    from_name: fieldOf(form, 'from_name'),
    ...(password !== '' && { password }),
    dkim:
      domain === ''
        ? null
        : { domain, selector: fieldOf(form, 'dkim_selector'), ...(key !== '' && { private_key: key }) },
  };
};

const Fields = ({ settings }: { readonly settings: Settings | null }) => (
  <>
    <label>
      Host
      <input name="host" required maxLength={253} defaultValue={settings?.host} spellCheck={false} />
    </label>
    <label>
      Port
      <input name="port" type="number" min={1} max={65_535} required defaultValue={settings?.port ?? 587} />
    </label>
    <label>
      User name
      <input name="username" maxLength={320} autoComplete="off" defaultValue={settings?.username} />
    </label>
    <label>
      Password{settings?.password ? '; empty: the present one stays' : ''}
      <input name="password" type="password" maxLength={1024} autoComplete="new-password" />
    </label>
    <label>
      Sender’s address
      <input name="from_email" type="email" required maxLength={320} defaultValue={settings?.from_email} />
    </label>
    <label>
      Sender’s name
      <input name="from_name" maxLength={200} defaultValue={settings?.from_name} />
    </label>
    <details open={settings?.dkim !== null && settings !== null}>
      <summary>Signatures (DKIM)</summary>
      <label>
        Domain; empty: mails are not signed
        <input name="dkim_domain" maxLength={253} defaultValue={settings?.dkim?.domain} spellCheck={false} />
      </label>
      <label>
        Selector
        <input name="dkim_selector" maxLength={63} defaultValue={settings?.dkim?.selector} spellCheck={false} />
      </label>
      <label>
        Private key (PEM){settings?.dkim ? '; empty: the present one stays' : ''}
        <textarea name="dkim_key" rows={3} spellCheck={false} />
      </label>
    </details>
  </>
);

/** Goes through the steps of sending without sending. */
const Test = () => {
  const { project } = useProject();
  const test = useMutation({
    mutationFn: () =>
      call('POST /projects/{project_id}/email/smtp/test', { params: { project_id: project.id }, body: {} }),
  });
  return (
    <>
      <button type="button" disabled={test.isPending} onClick={() => test.mutate()}>
        {test.isPending ? 'Trying…' : 'Try the mail server'}
      </button>
      {test.error && <Failure error={test.error} />}
      {test.data !== undefined && (
        <div role="status">
          <p className={test.data.ok ? 'good' : 'bad'}>
            {test.data.ok
              ? 'The server takes mails of yours. Nothing was sent.'
              : 'The server cannot be used like this.'}
          </p>
          <ol className="smtp-steps">
            {test.data.steps.map(({ name, ok, ms, error }) => (
              <li key={name} className={ok ? undefined : 'bad'}>
                <span aria-hidden="true">{ok ? '✓' : '✗'}</span> {name} <span className="muted">{ms} ms</span>{' '}
                {error ?? (ok ? 'done' : 'failed')}
              </li>
            ))}
          </ol>
        </div>
      )}
    </>
  );
};

/** The project's mail server. */
export const Smtp = ({ mayWrite }: { readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const [isForgetting, setForgetting] = useState(false);
  const settings = useQuery({
    queryKey: ['smtp', project.id],
    queryFn: () => call('GET /projects/{project_id}/email/smtp', { params }),
    refetchOnWindowFocus: false,
  });
  const save = useChange((body: Body) => call('PUT /projects/{project_id}/email/smtp', { params, body }), {
    stale: [['smtp', project.id]],
  });
  const forget = useChange(() => call('DELETE /projects/{project_id}/email/smtp', { params }), {
    stale: [['smtp', project.id]],
    onDone: () => setForgetting(false),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    save.mutate(bodyOf(event.currentTarget));
  };
  if (settings.isPending) return <p className="loading">Loading…</p>;
  if (settings.data === undefined && settings.error)
    return <Failure error={settings.error} onRetry={() => void settings.refetch()} />;
  const present = settings.data ?? null;
  return (
    <>
      <h2>Mail server</h2>
      {present === null && (
        <p className="empty">No mail server is set: this installation sends the mails, if it can.</p>
      )}
      {!mayWrite && <p className="muted">Admins and owners set the mail server.</p>}
      <form className="settings" onSubmit={submit} key={present === null ? 'none' : 'set'}>
        <fieldset disabled={!mayWrite}>
          <legend className="unseen">Mail server</legend>
          <Fields settings={present} />
          {save.error && <Failure error={save.error} />}
          <p className="row">
            <button type="submit" className="primary" disabled={save.isPending}>
              Save the mail server
            </button>
            {present !== null && (
              <button type="button" onClick={() => setForgetting(true)}>
                Forget it
              </button>
            )}
            <span role="status">{save.isSuccess ? 'Saved.' : ''}</span>
          </p>
        </fieldset>
      </form>
      {mayWrite && present !== null && <Test />}
      {isForgetting && (
        <Confirm
          title="Forget the mail server?"
          action="Forget it"
          onConfirm={() => forget.mutate(undefined)}
          onClose={() => setForgetting(false)}
        >
          <p>Its address, password and key are deleted. Mails that wait are not sent by it any more.</p>
          {forget.error && <Failure error={forget.error} />}
        </Confirm>
      )}
    </>
  );
};
