import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { Snippets } from './snippets.tsx';
import { useSearch } from '../../client/search.ts';

type Key = Operations['GET /projects/{project_id}/api-keys']['answer']['api_keys'][number];
type Made = Operations['POST /projects/{project_id}/api-keys']['answer'];

const pageSize = 50;
const hour = 3600;
const overlaps: readonly (readonly [label: string, seconds: number])[] = [
  ['for an hour', hour],
  ['for a day', 24 * hour],
  ['for 7 days', 7 * 24 * hour],
  ['for 30 days', 30 * 24 * hour],
  ['not at all: it has leaked', 0],
];

interface RollProps {
  readonly of: Key;
  readonly onMade: (made: Made) => void;
  readonly onClose: () => void;
}

const Roll = ({ of, onMade, onClose }: RollProps) => {
  const { project } = useProject();
  const roll = useChange(
    (seconds: number) =>
      call('POST /projects/{project_id}/api-keys/{key_id}/roll', {
        params: { project_id: project.id, key_id: of.id },
        body: { overlap_seconds: seconds },
      }),
    { stale: [['keys', project.id]], onDone: onMade },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    roll.mutate(Number(fieldOf(event.currentTarget, 'overlap')));
  };
  return (
    <Dialog title={`Roll ${of.name}`} onClose={onClose}>
      <form onSubmit={submit}>
        <p>A new key takes its place. Both work until the old one is deleted, or its time is over.</p>
        <label>
          The old key goes on working
          <select name="overlap" defaultValue={24 * hour}>
            {overlaps.map(([label, seconds]) => (
              <option key={seconds} value={seconds}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {roll.error && <Failure error={roll.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={roll.isPending}>
            Roll the key
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const NewKey = ({ onMade }: Pick<RollProps, 'onMade'>) => {
  const { project } = useProject();
  const make = useChange(
    (body: { readonly name: string; readonly kind: 'secret' | 'publishable' }) =>
      call('POST /projects/{project_id}/api-keys', { params: { project_id: project.id }, body }),
    { stale: [['keys', project.id]], onDone: onMade },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const kind = fieldOf(form, 'kind') === 'secret' ? 'secret' : 'publishable';
    make.mutate({ name: fieldOf(form, 'name'), kind }, { onSuccess: () => form.reset() });
  };
  return (
    <>
      <form className="row" onSubmit={submit}>
        <label className="inline">
          Name
          <input name="name" required maxLength={100} />
        </label>
        <label className="inline">
          Kind
          <select name="kind">
            <option value="publishable">publishable</option>
            <option value="secret">secret</option>
          </select>
        </label>
        <button type="submit" className="primary" disabled={make.isPending}>
          Create a key
        </button>
      </form>
      {make.error && <Failure error={make.error} />}
    </>
  );
};

const isOver = ({ expires_at: at }: Key): boolean => at !== null && new Date(at).getTime() <= Date.now();

const untilOf = (key: Key): string => {
  if (key.expires_at === null) return 'no end';
  return isOver(key) ? `${whenOf(key.expires_at)}: over` : whenOf(key.expires_at);
};

interface RowProps {
  readonly of: Key;
  readonly mayChange: boolean;
  readonly onRoll: () => void;
  readonly onDelete: () => void;
}

const KeyRow = ({ of, mayChange, onRoll, onDelete }: RowProps) => (
  <tr>
    <td>
      <bdi>{of.name}</bdi>
    </td>
    <td>{of.kind}</td>
    <td>
      <code>
        {of.prefix}…{of.last_four}
      </code>
    </td>
    <td>{of.last_used_at === null ? <span className="muted">not yet</span> : whenOf(of.last_used_at)}</td>
    <td className={isOver(of) ? 'bad' : undefined}>{untilOf(of)}</td>
    {mayChange && (
      <td>
        <span className="row">
          {!isOver(of) && (
            <button type="button" onClick={onRoll} aria-label={`Roll ${of.name}`}>
              Roll
            </button>
          )}
          <button type="button" onClick={onDelete} aria-label={`Delete ${of.name}`}>
            Delete
          </button>
        </span>
      </td>
    )}
    <td>{whenOf(of.created_at)}</td>
  </tr>
);

const ShowOnce = ({ made, onClose }: { readonly made: Made; readonly onClose: () => void }) => (
  <Dialog title={`The key ${made.name}`} onClose={onClose}>
    <p>It is shown once.{made.kind === 'secret' && ' It passes by all policies, so it belongs on servers only.'}</p>
    <Copyable label="Key" text={made.api_key ?? ''} />
    <Snippets apiKey={made.api_key ?? null} />
    <p className="row end">
      <button type="button" className="primary" onClick={onClose}>
        I have saved it
      </button>
    </p>
  </Dialog>
);

/** The API keys of the project; a key itself is shown once. */
export const KeysPage = () => {
  const { project, role } = useProject();
  const [search, setSearch] = useSearch();
  const offset = Number(search.get('offset') ?? 0) || 0;
  const params = { project_id: project.id };
  const [made, setMade] = useState<Made | null>(null);
  const [rolling, setRolling] = useState<Key | null>(null);
  const [removing, setRemoving] = useState<Key | null>(null);
  const keys = useQuery({
    queryKey: ['keys', project.id, offset],
    queryFn: () => call('GET /projects/{project_id}/api-keys', { params, query: { limit: pageSize, offset } }),
  });
  const remove = useChange(
    (id: string) => call('DELETE /projects/{project_id}/api-keys/{key_id}', { params: { ...params, key_id: id } }),
    { stale: [['keys', project.id]], onDone: () => setRemoving(null) },
  );
  const mayChange = atLeast(role, 'admin');
  return (
    <>
      <h1>API keys</h1>
      {mayChange ? (
        <NewKey onMade={setMade} />
      ) : (
        <p className="muted">Keys are made, rolled and deleted by admins and owners.</p>
      )}
      {keys.error && <Failure error={keys.error} onRetry={() => void keys.refetch()} />}
      <Table
        caption="API keys"
        isCaptionHidden
        columns={['Name', 'Kind', 'Key', 'Last used', 'Works until', ...(mayChange ? ['Change'] : []), 'Made']}
      >
        {keys.data?.api_keys.map((key) => (
          <KeyRow
            key={key.id}
            of={key}
            mayChange={mayChange}
            onRoll={() => setRolling(key)}
            onDelete={() => setRemoving(key)}
          />
        ))}
      </Table>
      <Pager
        label="keys"
        offset={offset}
        limit={pageSize}
        total={keys.data?.total ?? 0}
        onMove={(to) => setSearch({ offset: String(to) })}
      />
      <h2>Use</h2>
      <p className="muted">
        A publishable key may stand in a page: policies bind it. A secret key passes by them. A new key fills itself in.
        All calls are in <a href="/docs">the reference of the API</a>.
      </p>
      <Snippets apiKey={null} />
      {made !== null && <ShowOnce made={made} onClose={() => setMade(null)} />}
      {rolling !== null && (
        <Roll
          of={rolling}
          onMade={(next) => {
            setRolling(null);
            setMade(next);
          }}
          onClose={() => setRolling(null)}
        />
      )}
      {removing !== null && (
        <Confirm
          title={`Delete ${removing.name}?`}
          action="Delete the key"
          onConfirm={() => remove.mutate(removing.id)}
          onClose={() => setRemoving(null)}
        >
          <p>
            Whatever uses{' '}
            <code>
              {removing.prefix}…{removing.last_four}
            </code>{' '}
            is refused at once. It was last used: {whenOf(removing.last_used_at)}. This cannot be undone.
          </p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};
