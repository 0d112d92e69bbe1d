import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { Deliveries } from './deliveries.tsx';
import { WebhookFields, webhookOf } from './form.tsx';
import { ReplayForm } from './replay.tsx';
import { type Webhook, stateOf } from './shapes.ts';

type Change = Operations['PUT /projects/{project_id}/integrations/webhooks/{webhook_id}']['body'];

const tabs = { settings: 'Webhook', deliveries: 'Deliveries', replay: 'Replay' } as const;

const useChange = ({ id }: Pick<Webhook, 'id'>) => {
  const { project } = useProject();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Change) =>
      call('PUT /projects/{project_id}/integrations/webhooks/{webhook_id}', {
        params: { project_id: project.id, webhook_id: id },
        body,
      }),
    onSuccess: () =>
      Promise.all([
        queries.invalidateQueries({ queryKey: ['webhook', id] }),
        queries.invalidateQueries({ queryKey: ['webhooks', project.id] }),
      ]),
  });
};

/** Sends a test, and says how the receiver took it. */
const Test = ({ webhook }: { readonly webhook: Webhook }) => {
  const { project } = useProject();
  const test = useMutation({
    mutationFn: () =>
      call('POST /projects/{project_id}/integrations/webhooks/{webhook_id}/test', {
        params: { project_id: project.id, webhook_id: webhook.id },
        body: {},
      }),
  });
  const { data } = test;
  return (
    <>
      <p className="row">
        <button type="button" disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Sending a test…' : 'Send a test'}
        </button>
        <span role="status">
          {data !== undefined && (
            <span className={data.delivered ? 'good' : 'bad'}>
              {data.delivered ? 'It was taken' : `It was not taken${data.error === null ? '' : `: ${data.error}`}`}
              {data.status_code !== null && ` (${data.status_code} after ${data.response_time_ms ?? '–'} ms)`}
            </span>
          )}
        </span>
      </p>
      {test.error && <Failure error={test.error} />}
    </>
  );
};

/** Replaces the secret; the new one is shown once. */
const Rotate = ({ webhook }: { readonly webhook: Webhook }) => {
  const { project } = useProject();
  const [isAsking, setAsking] = useState(false);
  const rotate = useMutation({
    mutationFn: () =>
      call('POST /projects/{project_id}/integrations/webhooks/{webhook_id}/rotate-secret', {
        params: { project_id: project.id, webhook_id: webhook.id },
        body: {},
      }),
  });
  const close = (): void => {
    setAsking(false);
    rotate.reset();
  };
  return (
    <>
      <button type="button" onClick={() => setAsking(true)}>
        Replace the secret
      </button>
      {isAsking && rotate.data === undefined && (
        <Confirm title="Replace the secret?" action="Replace it" onClose={close} onConfirm={() => rotate.mutate()}>
          <p>The old secret signs beside the new one for a while, so that the receiver can change in between.</p>
          {rotate.error && <Failure error={rotate.error} />}
        </Confirm>
      )}
      {rotate.data !== undefined && (
        <Dialog title="The new secret" onClose={close}>
          <p>It is shown only now.</p>
          <Copyable label="Secret" text={rotate.data.secret ?? ''} />
          <p className="row end">
            <button type="button" className="primary" onClick={close}>
              I have saved it
            </button>
          </p>
        </Dialog>
      )}
    </>
  );
};

const Remove = ({ webhook }: { readonly webhook: Webhook }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [, go] = useLocation();
  const [isAsking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () =>
      call('DELETE /projects/{project_id}/integrations/webhooks/{webhook_id}', {
        params: { project_id: project.id, webhook_id: webhook.id },
      }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['webhooks', project.id] });
      go(`/projects/${project.id}/webhooks`);
    },
  });
  return (
    <>
      <button type="button" className="danger" onClick={() => setAsking(true)}>
        Delete the webhook
      </button>
      {isAsking && (
        <Confirm
          title="Delete the webhook?"
          action="Delete the webhook"
          onClose={() => setAsking(false)}
          onConfirm={() => remove.mutate()}
        >
          <p>
            Nothing more is sent to <code>{webhook.url}</code>, and its deliveries are not shown any more.
          </p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};

const Settings = ({ webhook }: { readonly webhook: Webhook }) => {
  const { role } = useProject();
  const change = useChange(webhook);
  const activate = useChange(webhook);
  const mayChange = atLeast(role, 'developer');
  return (
    <>
      {!mayChange && <p className="muted">Developers, admins and owners change webhooks.</p>}
      {mayChange && (
        <>
          <Test webhook={webhook} />
          <p className="row">
            <button
              type="button"
              disabled={activate.isPending}
              onClick={() => activate.mutate({ is_active: !webhook.is_active })}
            >
              {webhook.is_active ? 'Stop sending' : 'Begin to send'}
            </button>
            <Rotate webhook={webhook} />
          </p>
          {activate.error && <Failure error={activate.error} />}
        </>
      )}
      <form
        key={webhook.updated_at}
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate(webhookOf(event.currentTarget));
        }}
      >
        <fieldset disabled={!mayChange} className="bare">
          <WebhookFields webhook={webhook} />
          {mayChange && (
            <p className="row">
              <button type="submit" className="primary" disabled={change.isPending}>
                Save
              </button>
              <span role="status" className="good">
                {change.isSuccess && 'Saved.'}
              </span>
            </p>
          )}
        </fieldset>
        {change.error && <Failure error={change.error} />}
      </form>
      {mayChange && (
        <div className="ending">
          <Remove webhook={webhook} />
        </div>
      )}
    </>
  );
};

/** One webhook: what it gets, how that went, and how it is sent again. */
export const WebhookPage = ({ id }: { readonly id: string }) => {
  const { project, role } = useProject();
  const tab = useTab(tabs);
  const webhook = useQuery({
    queryKey: ['webhook', id],
    queryFn: () =>
      call('GET /projects/{project_id}/integrations/webhooks/{webhook_id}', {
        params: { project_id: project.id, webhook_id: id },
      }),
  });
  if (webhook.data === undefined && webhook.error)
    return <Failure error={webhook.error} onRetry={() => void webhook.refetch()} />;
  if (webhook.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = webhook;
  const { text, tone } = stateOf(data);
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/webhooks`}>All webhooks</Link>
      </p>
      <h1>{data.name ?? data.url}</h1>
      <p>
        <span className={`tag ${tone}`}>{text}</span>
      </p>
      {webhook.error && <Failure error={webhook.error} onRetry={() => void webhook.refetch()} />}
      <Tabs label="Parts of the webhook" tabs={tabs} current={tab} />
      {tab === 'settings' && <Settings webhook={data} />}
      {tab === 'deliveries' && <Deliveries webhookId={id} />}
      {tab === 'replay' &&
        (atLeast(role, 'developer') ? (
          <ReplayForm webhookId={id} />
        ) : (
          <p className="muted">Developers, admins and owners send deliveries once more.</p>
        ))}
    </>
  );
};
