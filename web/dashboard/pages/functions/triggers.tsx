import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Confirm } from '../../components/dialog.tsx';
import { EventNames, eventNamesId } from '../../components/event-names.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import type { Fn } from './source.ts';

interface Trigger {
  readonly id: string;
  readonly event: string;
}

const NewTrigger = ({ fn }: { readonly fn: Fn }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const make = useMutation({
    mutationFn: ({ event, filter }: { readonly event: string; readonly filter: string }) =>
      call('POST /projects/{project_id}/functions/{function_id}/triggers', {
        params: { project_id: project.id, function_id: fn.id },
        body: { event, filter: filter === '' ? null : filter },
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['triggers', fn.id] }),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate(
      { event: fieldOf(form, 'event').trim(), filter: fieldOf(form, 'filter').trim() },
      { onSuccess: () => form.reset() },
    );
  };
  return (
    <form className="row" onSubmit={submit}>
      <EventNames />
      <label>
        Event
        <input name="event" required list={eventNamesId} placeholder="db.insert or order.paid" />
      </label>
      <label className="fill">
        Only if (optional)
        <input name="filter" maxLength={4096} placeholder="data.status = 'paid'" spellCheck={false} />
      </label>
      <button type="submit" className="primary" disabled={make.isPending}>
        Add the trigger
      </button>
      {make.error && <Failure error={make.error} />}
    </form>
  );
};

/** Events that run the function. */
const Events = ({ fn }: { readonly fn: Fn }) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const [removing, setRemoving] = useState<Trigger | null>(null);
  const params = { project_id: project.id, function_id: fn.id };
  const triggers = useQuery({
    queryKey: ['triggers', fn.id],
    queryFn: () =>
      call('GET /projects/{project_id}/functions/{function_id}/triggers', { params, query: { limit: 200 } }),
  });
  const remove = useMutation({
    mutationFn: ({ id }: Trigger) =>
      call('DELETE /projects/{project_id}/functions/{function_id}/triggers/{trigger_id}', {
        params: { ...params, trigger_id: id },
      }),
    onSuccess: async () => {
      setRemoving(null);
      await queries.invalidateQueries({ queryKey: ['triggers', fn.id] });
    },
  });
  const mayChange = atLeast(role, 'developer');
  return (
    <section aria-label="Events">
      <h2>Events</h2>
      {triggers.error && <Failure error={triggers.error} onRetry={() => void triggers.refetch()} />}
      {triggers.data?.total === 0 && <p className="muted">No event runs this function.</p>}
      {triggers.data !== undefined && triggers.data.total > 0 && (
        <Table caption="Events that run it" isCaptionHidden columns={['Event', 'Only if', 'State', 'Since', '']}>
          {triggers.data.triggers.map((trigger) => (
            <tr key={trigger.id}>
              <td>
                <code>{trigger.event}</code>
              </td>
              <td>{trigger.filter === null ? 'always' : <code>{trigger.filter}</code>}</td>
              <td className={trigger.is_active && trigger.last_error === null ? '' : 'bad'}>
                {trigger.is_active
                  ? (trigger.last_error ?? 'active')
                  : `turned off: ${trigger.last_error ?? 'its events failed for days'}`}
              </td>
              <td>
                <Time at={trigger.created_at} />
              </td>
              <td>
                {mayChange && (
                  <button
                    type="button"
                    aria-label={`Delete the trigger for ${trigger.event}`}
                    onClick={() => setRemoving(trigger)}
                  >
                    Delete
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {mayChange && <NewTrigger fn={fn} />}
      {removing !== null && (
        <Confirm
          title="Delete the trigger?"
          action="Delete the trigger"
          onClose={() => setRemoving(null)}
          onConfirm={() => remove.mutate(removing)}
        >
          <p>
            <code>{removing.event}</code> does not run {fn.name} any more. Jobs that it made go on.
          </p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </section>
  );
};

/** Schedules that run the function. */
const Schedules = ({ fn }: { readonly fn: Fn }) => {
  const { project, role } = useProject();
  const schedules = useQuery({
    queryKey: ['schedules', project.id, 'all'],
    queryFn: () =>
      call('GET /projects/{project_id}/cron', { params: { project_id: project.id }, query: { limit: 200 } }),
  });
  const own = schedules.data?.schedules.filter(
    ({ target }) => target.type === 'function' && target.function_id === fn.id,
  );
  const base = `/projects/${project.id}/cron`;
  return (
    <section aria-label="Schedules">
      <h2>Schedules</h2>
      {schedules.error && <Failure error={schedules.error} onRetry={() => void schedules.refetch()} />}
      {own?.length === 0 && <p className="muted">No schedule runs this function.</p>}
      {own !== undefined && own.length > 0 && (
        <Table caption="Schedules that run it" isCaptionHidden columns={['Name', 'Times', 'Next', 'Last']}>
          {own.map((schedule) => (
            <tr key={schedule.id}>
              <td>
                <Link href={`${base}/${schedule.id}`}>{schedule.name}</Link>
              </td>
              <td>
                <code>{schedule.schedule}</code> {schedule.timezone}
              </td>
              <td>{schedule.enabled ? <Time at={schedule.next_run_at} /> : 'paused'}</td>
              <td>{schedule.last_run?.status ?? 'never'}</td>
            </tr>
          ))}
        </Table>
      )}
      {atLeast(role, 'developer') && (
        <p>
          <Link href={`${base}?new=${fn.id}`}>Run it at set times</Link>
        </p>
      )}
    </section>
  );
};

/** The events and schedules that start the function. */
export const Triggers = ({ fn }: { readonly fn: Fn }) => (
  <>
    <Events fn={fn} />
    <Schedules fn={fn} />
  </>
);
