import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

type Integration = Operations['GET /projects/{project_id}/integrations/providers']['answer']['providers'][number];
type Provider = Integration['provider'];

interface Field {
  readonly name: string;
  readonly label: string;
  readonly isOptional?: boolean;
  readonly isList?: boolean;
}

const chat: readonly Field[] = [
  { name: 'webhook_url', label: 'Address of the incoming webhook' },
  { name: 'events', label: 'Events, separated by commas; empty: all', isOptional: true, isList: true },
];
const base: Field = { name: 'base_url', label: 'Another address of its API', isOptional: true };
const onEvent: Field = { name: 'function_id', label: 'Function that gets its events (id)', isOptional: true };

const fields: Readonly<Record<Provider, readonly Field[]>> = {
  slack: chat,
  discord: chat,
  resend: [{ name: 'api_key', label: 'API key' }, { name: 'from_email', label: 'Sender’s address' }, base],
  stripe: [
    { name: 'secret_key', label: 'Secret key' },
    { name: 'webhook_secret', label: 'Secret of its webhook' },
    onEvent,
  ],
  paypal: [
    { name: 'client_id', label: 'Client id' },
    { name: 'client_secret', label: 'Client secret' },
    { name: 'webhook_id', label: 'Id of its webhook' },
    { name: 'environment', label: 'Environment: sandbox or live' },
    base,
    onEvent,
  ],
  razorpay: [
    { name: 'key_id', label: 'Key id' },
    { name: 'key_secret', label: 'Key secret' },
    { name: 'webhook_secret', label: 'Secret of its webhook' },
    onEvent,
  ],
};

const valueOf = ({ isList }: Field, text: string): unknown =>
  isList === true
    ? text
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '')
    : text;

const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
};

const configOf = (provider: Provider, form: HTMLFormElement): Record<string, unknown> =>
  Object.fromEntries(
    fields[provider].flatMap((field) => {
      const text = fieldOf(form, field.name).trim();
      return text === '' ? [] : [[field.name, valueOf(field, text)] as const];
    }),
  );

const useParams = (provider: Provider) => ({ project_id: useProject().project.id, provider });

const Connect = ({ of, onClose }: { readonly of: Integration; readonly onClose: () => void }) => {
  const { project } = useProject();
  const params = useParams(of.provider);
  const put = useChange(
    (config: Record<string, unknown>) =>
      call('PUT /projects/{project_id}/integrations/providers/{provider}', { params, body: { config } }),
    { stale: [['integrations', project.id]], onDone: onClose },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    put.mutate(configOf(of.provider, event.currentTarget));
  };
  return (
    <Dialog title={`${of.configured ? 'Change' : 'Connect'} ${of.provider}`} onClose={onClose}>
      <form onSubmit={submit}>
        {of.category === 'payments' && (
          <Copyable
            label="Address for its webhook"
            text={`${globalThis.location.origin}/hooks/${project.id}/${of.provider}`}
          />
        )}
        {fields[of.provider].map((field) => (
          <label key={field.name}>
            {field.label}
            {field.isOptional === true && ' (optional)'}
            <input
              name={field.name}
              required={field.isOptional !== true}
              defaultValue={textOf(of.config[field.name])}
              autoComplete="off"
              spellCheck={false}
            />
          </label>
        ))}
        {of.configured && <p className="muted">A secret that stays masked is not changed.</p>}
        {put.error && <Failure error={put.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={put.isPending}>
            Save
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const Test = ({ of }: { readonly of: Integration }) => {
  const params = useParams(of.provider);
  const test = useMutation({
    mutationFn: () => call('POST /projects/{project_id}/integrations/providers/{provider}/test', { params, body: {} }),
  });
  return (
    <>
      <button
        type="button"
        disabled={test.isPending}
        aria-label={`Try ${of.provider}`}
        title={of.category === 'messaging' ? 'Sends a message' : 'Asks whether it takes the keys'}
        onClick={() => test.mutate()}
      >
        {test.isPending ? 'Trying…' : 'Try'}
      </button>
      <span role="status" className={test.data?.ok === false ? 'bad' : 'good'}>
        {test.data !== undefined && (test.data.ok ? `works (${Math.round(test.data.latency_ms)} ms)` : test.data.error)}
      </span>
      {test.error && <Failure error={test.error} />}
    </>
  );
};

interface RowProps {
  readonly of: Integration;
  readonly mayWrite: boolean;
  readonly onConnect: () => void;
  readonly onDelete: () => void;
}

const Row = ({ of, mayWrite, onConnect, onDelete }: RowProps) => {
  const { project } = useProject();
  const params = useParams(of.provider);
  const toggle = useChange(
    () => call('POST /projects/{project_id}/integrations/providers/{provider}/toggle', { params, body: {} }),
    { stale: [['integrations', project.id]] },
  );
  const state = of.configured ? (of.is_active ? 'on' : 'off') : 'not connected';
  return (
    <tr>
      <td>{of.provider}</td>
      <td>{of.category}</td>
      <td className={of.configured && of.is_active ? 'good' : 'muted'}>{state}</td>
      {mayWrite && (
        <td>
          <span className="row">
            <button
              type="button"
              onClick={onConnect}
              aria-label={`${of.configured ? 'Change' : 'Connect'} ${of.provider}`}
            >
              {of.configured ? 'Change' : 'Connect'}
            </button>
            {of.configured && (
              <>
                <button
                  type="button"
                  disabled={toggle.isPending}
                  aria-label={`Turn ${of.is_active ? 'off' : 'on'} ${of.provider}`}
                  onClick={() => toggle.mutate(undefined)}
                >
                  Turn {of.is_active ? 'off' : 'on'}
                </button>
                <button type="button" onClick={onDelete} aria-label={`Delete ${of.provider}`}>
                  Delete
                </button>
                <Test of={of} />
              </>
            )}
          </span>
          {toggle.error && <Failure error={toggle.error} />}
        </td>
      )}
    </tr>
  );
};

/** The project's accounts with others. */
export const IntegrationsPage = () => {
  const { project, role } = useProject();
  const params = { project_id: project.id };
  const [connecting, setConnecting] = useState<Integration | null>(null);
  const [removing, setRemoving] = useState<Provider | null>(null);
  const integrations = useQuery({
    queryKey: ['integrations', project.id],
    queryFn: () => call('GET /projects/{project_id}/integrations/providers', { params }),
  });
  const remove = useChange(
    (provider: Provider) =>
      call('DELETE /projects/{project_id}/integrations/providers/{provider}', { params: { ...params, provider } }),
    { stale: [['integrations', project.id]], onDone: () => setRemoving(null) },
  );
  const mayWrite = atLeast(role, 'admin');
  return (
    <>
      <h1>Integrations</h1>
      {!mayWrite && <p className="muted">Admins and owners connect other services.</p>}
      {integrations.error && <Failure error={integrations.error} onRetry={() => void integrations.refetch()} />}
      <Table
        caption="Integrations"
        isCaptionHidden
        columns={['Service', 'For', 'State', ...(mayWrite ? ['Change'] : [])]}
      >
        {integrations.data?.providers.map((one) => (
          <Row
            key={one.provider}
            of={one}
            mayWrite={mayWrite}
            onConnect={() => setConnecting(one)}
            onDelete={() => setRemoving(one.provider)}
          />
        ))}
      </Table>
      {connecting !== null && <Connect of={connecting} onClose={() => setConnecting(null)} />}
      {removing !== null && (
        <Confirm
          title={`Delete ${removing}?`}
          action="Delete the integration"
          onConfirm={() => remove.mutate(removing)}
          onClose={() => setRemoving(null)}
        >
          <p>Its keys are deleted. Functions and events that use it fail or go nowhere from then on.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};
