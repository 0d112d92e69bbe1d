import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { type FormEvent } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { oneOf, useFilters } from '../../client/filters.ts';
import { fieldOf } from '../../client/form.ts';
import { usePace } from '../../client/live.ts';
import { useProject } from '../../client/project.ts';
import { EventNames, eventNamesId } from '../../components/event-names.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { deliveryClass, deliveryStatuses, deliveryTexts } from './shapes.ts';

/** The webhooks of the project, as far as one answer has them. */
export const useWebhooks = () => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['webhooks', project.id],
    queryFn: () =>
      call('GET /projects/{project_id}/integrations/webhooks', {
        params: { project_id: project.id },
        query: { limit: 200 },
      }),
  });
};

interface DeliveriesProps {
  /** Left out: those of all webhooks. */
  readonly webhookId?: string;
}

const limit = 50;

/** Deliveries, the latest first, by status, event and webhook. */
export const Deliveries = ({ webhookId }: DeliveriesProps) => {
  const { project } = useProject();
  const filters = useFilters();
  const webhooks = useWebhooks();
  const pace = usePace(10_000);
  const status = oneOf(deliveryStatuses, filters.get('status'));
  const event = filters.get('event');
  const only = webhookId ?? filters.get('webhook');
  const query = {
    limit,
    ...(status && { status }),
    ...(event !== '' && { event }),
    ...(only !== '' && { webhook_id: only }),
  };
  const deliveries = useInfiniteQuery({
    queryKey: ['deliveries', project.id, query],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      call('GET /projects/{project_id}/integrations/deliveries', {
        params: { project_id: project.id },
        query: { ...query, before: pageParam },
      }),
    getNextPageParam: ({ next }) => next ?? undefined,
    placeholderData: (present) => present,
    refetchInterval: (of) => (of.state.data?.pages.length === 1 ? pace : false),
  });
  const rows = (deliveries.data?.pages ?? []).flatMap((page) => page.deliveries);
  const nameOf = (id: string): string => {
    const webhook = webhooks.data?.webhooks.find((each) => each.id === id);
    return webhook === undefined ? id : (webhook.name ?? webhook.url);
  };
  const submit = (submitted: FormEvent<HTMLFormElement>): void => {
    submitted.preventDefault();
    filters.set({ event: fieldOf(submitted.currentTarget, 'event').trim() });
  };
  return (
    <>
      <form className="row" onSubmit={submit} key={event}>
        <EventNames />
        <label className="inline">
          Status
          <select value={status ?? ''} onChange={({ target }) => filters.set({ status: target.value })}>
            <option value="">any</option>
            {deliveryStatuses.map((each) => (
              <option key={each} value={each}>
                {each}: {deliveryTexts[each]}
              </option>
            ))}
          </select>
        </label>
        {webhookId === undefined && (
          <label className="inline">
            Webhook
            <select value={filters.get('webhook')} onChange={({ target }) => filters.set({ webhook: target.value })}>
              <option value="">any</option>
              {webhooks.data?.webhooks.map((webhook) => (
                <option key={webhook.id} value={webhook.id}>
                  {webhook.name ?? webhook.url}
                </option>
              ))}
            </select>
          </label>
        )}
        <label className="inline">
          Event
          <input name="event" list={eventNamesId} defaultValue={event} maxLength={200} />
        </label>
        <button type="submit">Search</button>
      </form>
      {deliveries.error && <Failure error={deliveries.error} onRetry={() => void deliveries.refetch()} />}
      {deliveries.data !== undefined && rows.length === 0 && <p className="empty">There is no such delivery.</p>}
      {rows.length > 0 && (
        <Table
          caption="Deliveries"
          isCaptionHidden
          columns={[
            'Made',
            'Event',
            ...(webhookId === undefined ? ['Webhook'] : []),
            'Status',
            'Answer',
            'Attempts',
            'Next attempt',
          ]}
        >
          {rows.map((row) => (
            <tr key={row.id}>
              <td>
                <Link href={`/projects/${project.id}/webhooks/${row.webhook_id}/deliveries/${row.id}`}>
                  <Time at={row.created_at} />
                </Link>
              </td>
              <td>
                <code>{row.event}</code>
              </td>
              {webhookId === undefined && <td className="one-line">{nameOf(row.webhook_id)}</td>}
              <td>
                <span className={`tag ${deliveryClass(row.status)}`} title={deliveryTexts[row.status]}>
                  {row.status}
                </span>
              </td>
              <td className="one-line">
                {row.status_code === null
                  ? (row.error ?? '–')
                  : `${row.status_code} in ${row.response_time_ms ?? '–'} ms`}
              </td>
              <td>{row.attempt}</td>
              <td>
                <Time at={row.next_attempt_at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {deliveries.hasNextPage && (
        <button type="button" disabled={deliveries.isFetchingNextPage} onClick={() => void deliveries.fetchNextPage()}>
          Older deliveries
        </button>
      )}
    </>
  );
};
