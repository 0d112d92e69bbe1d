import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { useEvents } from '../../components/event-names.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { WithCode } from '../../components/with-code.tsx';

/** Emits an event of the project's own, to try what subscribes to it. */
const Emit = () => {
  const { project } = useProject();
  const [fault, setFault] = useState<string | null>(null);
  const emit = useMutation({
    mutationFn: (body: { readonly name: string; readonly data: unknown }) =>
      call('POST /projects/{project_id}/integrations/events', { params: { project_id: project.id }, body }),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const text = fieldOf(form, 'data').trim();
    try {
      const data: unknown = text === '' ? null : JSON.parse(text);
      setFault(null);
      emit.mutate({ name: fieldOf(form, 'name').trim(), data });
    } catch {
      setFault('The data are not JSON.');
    }
  };
  return (
    <section className="panel" aria-label="Emit an event">
      <h2>Emit an event of your own</h2>
      <p className="muted">
        Functions do it by <code>sdk.events.emit</code>, servers by <code>POST /api/events</code> with a secret key.
      </p>
      <form onSubmit={submit}>
        <label>
          Name of the event
          <input name="name" required maxLength={100} placeholder="order.paid" spellCheck={false} />
        </label>
        <label>
          Data (JSON)
          <textarea name="data" rows={3} spellCheck={false} placeholder='{ "order": 7 }' />
        </label>
        {fault !== null && (
          <p className="bad" role="alert">
            {fault}
          </p>
        )}
        <p className="row">
          <button type="submit" className="primary" disabled={emit.isPending}>
            Emit it
          </button>
          <span role="status" className="good">
            {emit.data && `${emit.data.name} was emitted.`}
          </span>
        </p>
        {emit.error && <Failure error={emit.error} />}
      </form>
    </section>
  );
};

/** The events that webhooks and triggers can subscribe to. */
export const Events = () => {
  const { role } = useProject();
  const events = useEvents();
  return (
    <>
      <p>
        Webhooks and triggers of functions subscribe to these names, to groups such as <code>db.*</code>, to{' '}
        <code>*</code>, and to events of your own.
      </p>
      {events.error && <Failure error={events.error} onRetry={() => void events.refetch()} />}
      <Table caption="Events of the platform" isCaptionHidden columns={['Event', 'Group', 'It happens when']}>
        {events.data?.events.map(({ name, group, description }) => (
          <tr key={name}>
            <td>
              <code>{name}</code>
            </td>
            <td>{group}</td>
            <td>
              <WithCode text={description} />
            </td>
          </tr>
        ))}
      </Table>
      {atLeast(role, 'developer') && <Emit />}
    </>
  );
};
