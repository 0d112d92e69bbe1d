import { useState } from 'react';
import { fieldOf } from '../../client/form.ts';
import { EventNames, eventNamesId } from '../../components/event-names.tsx';
import { type NewWebhook, type Webhook, eventsIn } from './shapes.ts';

/** The body of a request from the fields below. */
export const webhookOf = (form: HTMLFormElement): NewWebhook => ({
  name: fieldOf(form, 'name').trim() || null,
  url: fieldOf(form, 'url').trim(),
  events: eventsIn(fieldOf(form, 'events')),
  filter: fieldOf(form, 'filter').trim() || null,
  rate_per_second: Number(fieldOf(form, 'rate_per_second')),
});

/** The fields of a webhook: address, events, filter and rate. */
export const WebhookFields = ({ webhook }: { readonly webhook?: Webhook }) => {
  const [events, setEvents] = useState(webhook?.events.join('\n') ?? '');
  const [more, setMore] = useState('');
  const add = (): void => {
    if (more.trim() === '') return;
    setEvents([...new Set([...eventsIn(events), more.trim()])].join('\n'));
    setMore('');
  };
  return (
    <>
      <EventNames />
      <label>
        Name (optional)
        <input name="name" maxLength={63} defaultValue={webhook?.name ?? ''} />
      </label>
      <label>
        Address
        <input
          name="url"
          type="url"
          required
          maxLength={2048}
          placeholder="https://example.com/hook"
          defaultValue={webhook?.url ?? ''}
        />
      </label>
      <label>
        Events, one a line
        <textarea
          name="events"
          rows={3}
          required
          spellCheck={false}
          value={events}
          onChange={({ target }) => setEvents(target.value)}
        />
      </label>
      <p className="row">
        <input
          aria-label="Event to add"
          list={eventNamesId}
          value={more}
          placeholder="db.insert, table.orders.*, order.paid, *"
          onChange={({ target }) => setMore(target.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return;
            event.preventDefault();
            add();
          }}
        />
        <button type="button" onClick={add}>
          Add the event
        </button>
      </p>
      <label>
        Only if (optional)
        <input
          name="filter"
          maxLength={4096}
          spellCheck={false}
          placeholder="data.status = 'paid' and old.status <> 'paid'"
          defaultValue={webhook?.filter ?? ''}
        />
      </label>
      <label>
        At most so many a second
        <input
          name="rate_per_second"
          type="number"
          min={1}
          max={1000}
          required
          defaultValue={webhook?.rate_per_second ?? 50}
        />
      </label>
    </>
  );
};
