import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Field } from '../../components/field.tsx';
import { Table } from '../../components/table.tsx';

type Provider = Operations['GET /projects/{project_id}/auth/providers']['answer']['providers'][number];
type Body = Operations['PUT /projects/{project_id}/auth/providers/{provider}']['body'];

interface PutProps {
  /** Null: a new one. */
  readonly provider: Provider | null;
  readonly onClose: () => void;
}

interface FieldsProps {
  readonly provider: Provider | null;
  readonly error: unknown;
}

const fields = ['provider', 'client_id', 'client_secret', 'issuer', 'scopes'];

const ClientFields = ({ provider, error }: FieldsProps) => (
  <>
    <Field label="Client id" at="client_id" error={error}>
      {(given) => (
        <input
          {...given}
          name="client_id"
          required
          maxLength={500}
          defaultValue={provider?.client_id}
          autoComplete="off"
        />
      )}
    </Field>
    <Field label="Client secret" at="client_secret" error={error}>
      {(given) => (
        <input
          {...given}
          name="client_secret"
          required
          maxLength={8192}
          defaultValue={provider?.client_secret}
          autoComplete="off"
          spellCheck={false}
        />
      )}
    </Field>
    <Field label="Issuer; empty: the provider’s own" at="issuer" error={error}>
      {(given) => <input {...given} name="issuer" type="url" maxLength={2048} defaultValue={provider?.issuer ?? ''} />}
    </Field>
    <Field label="Scopes, separated by spaces; empty: the usual ones" at="scopes" error={error}>
      {(given) => <input {...given} name="scopes" maxLength={500} defaultValue={provider?.scopes ?? ''} />}
    </Field>
  </>
);

const Fields = ({ provider, error }: FieldsProps) => (
  <>
    {provider === null && (
      <Field
        label="Provider: google, microsoft, apple, github, or a name of yours for any OpenID provider"
        at="provider"
        error={error}
      >
        {(given) => (
          <input
            {...given}
            name="provider"
            required
            pattern="[a-z][a-z0-9_\-]{0,62}"
            list="known-providers"
            autoComplete="off"
          />
        )}
      </Field>
    )}
    <datalist id="known-providers">
      <option value="google" />
      <option value="microsoft" />
      <option value="apple" />
      <option value="github" />
    </datalist>
    <ClientFields provider={provider} error={error} />
    <label className="inline spaced">
      <input type="checkbox" name="link" defaultChecked={provider?.link_by_verified_email ?? false} />
      Who has the same confirmed address is the same user
    </label>
    <label className="inline spaced">
      <input type="checkbox" name="enabled" defaultChecked={provider?.enabled ?? true} />
      Offered to users
    </label>
  </>
);

const Put = ({ provider, onClose }: PutProps) => {
  const { project } = useProject();
  const put = useChange(
    ({ name, body }: { readonly name: string; readonly body: Body }) =>
      call('PUT /projects/{project_id}/auth/providers/{provider}', {
        params: { project_id: project.id, provider: name },
        body,
      }),
    { stale: [['auth-providers', project.id]], onDone: onClose },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const body: Body = {
      client_id: fieldOf(form, 'client_id'),
      client_secret: fieldOf(form, 'client_secret'),
      issuer: fieldOf(form, 'issuer') || null,
      scopes: fieldOf(form, 'scopes') || null,
      link_by_verified_email: fieldOf(form, 'link') === 'on',
      enabled: fieldOf(form, 'enabled') === 'on',
    };
    put.mutate({ name: provider?.provider ?? fieldOf(form, 'provider'), body });
  };
  return (
    <Dialog title={provider === null ? 'Sign-in with another provider' : provider.provider} onClose={onClose}>
      <form onSubmit={submit}>
        <Copyable label="Callback to register there" text={`${project.rest_url}/auth/v1/callback`} />
        <Fields provider={provider} error={put.error} />
        {put.error && <Failure error={put.error} fields={fields} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={put.isPending}>
            Save the provider
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** Other providers that users sign in with. */
export const Providers = ({ mayWrite }: { readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const [put, setPut] = useState<Provider | 'new' | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const providers = useQuery({
    queryKey: ['auth-providers', project.id],
    queryFn: () => call('GET /projects/{project_id}/auth/providers', { params }),
  });
  const remove = useChange(
    (provider: string) =>
      call('DELETE /projects/{project_id}/auth/providers/{provider}', { params: { ...params, provider } }),
    { stale: [['auth-providers', project.id]], onDone: () => setRemoving(null) },
  );
  const all = providers.data?.providers ?? [];
  return (
    <section>
      <div className="row">
        <h2>Providers</h2>
        {mayWrite && (
          <button type="button" onClick={() => setPut('new')}>
            Add a provider
          </button>
        )}
      </div>
      {providers.error && <Failure error={providers.error} onRetry={() => void providers.refetch()} />}
      {providers.data !== undefined && all.length === 0 && (
        <p className="empty">Users sign in by password and by links in mails.</p>
      )}
      {all.length > 0 && (
        <Table
          caption="Providers"
          isCaptionHidden
          columns={['Provider', 'Client id', 'Offered', ...(mayWrite ? ['Change', 'Delete'] : [])]}
        >
          {all.map((one) => (
            <tr key={one.provider}>
              <td>{one.provider}</td>
              <td>
                <bdi>{one.client_id}</bdi>
              </td>
              <td>{one.enabled ? 'yes' : 'no'}</td>
              {mayWrite && (
                <>
                  <td>
                    <button type="button" onClick={() => setPut(one)} aria-label={`Change ${one.provider}`}>
                      Change
                    </button>
                  </td>
                  <td>
                    <button
                      type="button"
                      onClick={() => setRemoving(one.provider)}
                      aria-label={`Delete ${one.provider}`}
                    >
                      Delete
                    </button>
                  </td>
                </>
              )}
            </tr>
          ))}
        </Table>
      )}
      {put !== null && <Put provider={put === 'new' ? null : put} onClose={() => setPut(null)} />}
      {removing !== null && (
        <Confirm
          title={`Delete ${removing}?`}
          action="Delete the provider"
          onConfirm={() => remove.mutate(removing)}
          onClose={() => setRemoving(null)}
        >
          <p>Nobody signs in by it any more. Users who have no other way in cannot sign in.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </section>
  );
};
