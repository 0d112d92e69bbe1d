import { useState } from 'react';
import { Link } from 'wouter';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { Deliveries, useWebhooks } from './deliveries.tsx';
import { Events } from './events.tsx';
import { NewWebhookDialog } from './new-webhook.tsx';
import { stateOf } from './shapes.ts';

const tabs = { list: 'Webhooks', deliveries: 'Deliveries', events: 'Events' } as const;

const WebhookList = () => {
  const { project } = useProject();
  const webhooks = useWebhooks();
  if (webhooks.data === undefined && webhooks.error)
    return <Failure error={webhooks.error} onRetry={() => void webhooks.refetch()} />;
  if (webhooks.data === undefined) return <p className="loading">Loading…</p>;
  if (webhooks.data.total === 0)
    return <p className="empty">No webhook yet. A webhook sends events of the project to an address, signed.</p>;
  return (
    <>
      <Table caption="Webhooks" isCaptionHidden columns={['Webhook', 'Events', 'State', 'Deliveries']}>
        {webhooks.data.webhooks.map((webhook) => {
          const { text, tone } = stateOf(webhook);
          const at = `/projects/${project.id}/webhooks/${webhook.id}`;
          return (
            <tr key={webhook.id}>
              <td className="one-line">
                <Link href={at}>{webhook.name ?? webhook.url}</Link>
              </td>
              <td className="one-line">
                <code>{webhook.events.join(', ')}</code>
              </td>
              <td>
                <span className={`tag ${tone}`}>{text}</span>
              </td>
              <td>
                <Link href={`${at}?tab=deliveries`}>Deliveries</Link>
              </td>
            </tr>
          );
        })}
      </Table>
      {webhooks.data.total > webhooks.data.webhooks.length && (
        <p className="muted">
          The first {webhooks.data.webhooks.length} of {webhooks.data.total.toLocaleString('en')} webhooks are shown.
        </p>
      )}
    </>
  );
};

/** The webhooks of the project, what they were sent, and what they can subscribe to. */
export const WebhooksPage = () => {
  const { role } = useProject();
  const tab = useTab(tabs);
  const [isNew, setNew] = useState(false);
  return (
    <>
      <div className="row head">
        <h1>Webhooks</h1>
        {atLeast(role, 'developer') && (
          <button type="button" className="primary" onClick={() => setNew(true)}>
            New webhook
          </button>
        )}
      </div>
      <Tabs label="Parts of the webhooks" tabs={tabs} current={tab} />
      {tab === 'list' && <WebhookList />}
      {tab === 'deliveries' && <Deliveries />}
      {tab === 'events' && <Events />}
      {isNew && <NewWebhookDialog onClose={() => setNew(false)} />}
    </>
  );
};
