import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

type Provider = Operations['GET /projects/{project_id}/ai/providers']['answer']['providers'][number];

/** The key of a provider: written, and never shown again. */
const KeyDialog = ({ provider, onClose }: { readonly provider: Provider; readonly onClose: () => void }) => {
  const { project } = useProject();
  const save = useChange(
    (body: { provider: Provider['provider']; api_key?: string; base_url: string | null }) =>
      call('POST /projects/{project_id}/ai/providers', { params: { project_id: project.id }, body }),
    {
      stale: [
        ['providers', project.id],
        ['models', project.id],
      ],
      onDone: onClose,
    },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const [key, base] = [fieldOf(form, 'key'), fieldOf(form, 'base')];
    save.mutate({
      provider: provider.provider,
      base_url: base === '' ? null : base,
      ...(key !== '' && { api_key: key }),
    });
  };
  return (
    <Dialog title={`The key of ${provider.provider}`} onClose={onClose}>
      <form onSubmit={submit} autoComplete="off">
        <label>
          API key
          <input
            name="key"
            type="password"
            autoComplete="off"
            required={!provider.configured}
            placeholder={provider.masked_key ?? ''}
          />
        </label>
        <label>
          Address, where it is not the provider’s own
          <input name="base" type="url" defaultValue={provider.base_url ?? ''} placeholder="https://…" />
        </label>
        <p className="muted">The key is sealed at once and never shown again.</p>
        {save.error && <Failure error={save.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={save.isPending}>
            Save the key
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const ProviderRow = ({
  provider,
  onEdit,
  onDelete,
}: {
  readonly provider: Provider;
  readonly onEdit: () => void;
  readonly onDelete: () => void;
}) => {
  const { project, role } = useProject();
  const params = { project_id: project.id, provider: provider.provider };
  const check = useMutation({
    mutationFn: () => call('POST /projects/{project_id}/ai/providers/{provider}/test', { params, body: {} }),
  });
  const isAdmin = atLeast(role, 'admin');
  return (
    <tr>
      <td>{provider.provider}</td>
      <td>{provider.configured ? <code>{provider.masked_key}</code> : <span className="muted">none</span>}</td>
      <td className="one-line">{provider.base_url ?? ''}</td>
      <td>
        {check.data && (
          <span className={check.data.ok ? 'good' : 'bad'} role="status">
            {check.data.ok ? `works, ${check.data.latency_ms} ms` : check.data.error}
          </span>
        )}
        {check.error && <span className="bad">{check.error.message}</span>}
        {!check.data && !check.error && provider.last_tested_at !== null && (
          <span className={provider.last_test_ok === true ? 'good' : 'bad'}>
            {provider.last_test_ok === true ? 'worked' : 'failed'}, {whenOf(provider.last_tested_at)}
          </span>
        )}
      </td>
      <td>
        <span className="row">
          {provider.configured && atLeast(role, 'developer') && (
            <button
              type="button"
              disabled={check.isPending}
              aria-label={`Test ${provider.provider}`}
              onClick={() => check.mutate()}
            >
              {check.isPending ? 'Testing…' : 'Test'}
            </button>
          )}
          {isAdmin && (
            <button
              type="button"
              aria-label={`${provider.configured ? 'Change' : 'Add a key'} of ${provider.provider}`}
              onClick={onEdit}
            >
              {provider.configured ? 'Change' : 'Add a key'}
            </button>
          )}
          {isAdmin && provider.configured && (
            <button type="button" aria-label={`Delete the key of ${provider.provider}`} onClick={onDelete}>
              Delete
            </button>
          )}
        </span>
      </td>
    </tr>
  );
};

/** The project's own keys for providers of models. */
export const Providers = () => {
  const { project, role } = useProject();
  const [editing, setEditing] = useState<Provider | null>(null);
  const [deleting, setDeleting] = useState<Provider | null>(null);
  const providers = useQuery({
    queryKey: ['providers', project.id],
    queryFn: () => call('GET /projects/{project_id}/ai/providers', { params: { project_id: project.id } }),
  });
  const remove = useChange(
    ({ provider }: Provider) =>
      call('DELETE /projects/{project_id}/ai/providers/{provider}', { params: { project_id: project.id, provider } }),
    {
      stale: [
        ['providers', project.id],
        ['models', project.id],
      ],
      onDone: () => setDeleting(null),
    },
  );
  return (
    <>
      {!atLeast(role, 'admin') && <p className="muted">Keys of providers are set by admins and owners.</p>}
      {providers.error && <Failure error={providers.error} onRetry={() => void providers.refetch()} />}
      <Table caption="Providers" isCaptionHidden columns={['Provider', 'Key', 'Address', 'Last test', '']}>
        {providers.data?.providers.map((provider) => (
          <ProviderRow
            key={provider.provider}
            provider={provider}
            onEdit={() => setEditing(provider)}
            onDelete={() => setDeleting(provider)}
          />
        ))}
      </Table>
      {editing !== null && <KeyDialog provider={editing} onClose={() => setEditing(null)} />}
      {deleting !== null && (
        <Confirm
          title={`Delete the key of ${deleting.provider}?`}
          action="Delete the key"
          onConfirm={() => remove.mutate(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>Calls of its models are refused at once. The key cannot be read back: it has to be entered again.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};
