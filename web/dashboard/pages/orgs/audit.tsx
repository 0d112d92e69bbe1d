import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { type OpenOrg, useOrg } from '../../client/org.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Changes } from '../../components/changes.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { csvOf } from '../../client/csv.ts';
import { useSearch } from '../../client/search.ts';

type Entry = Operations['GET /team/audit-log']['answer']['entries'][number];

const pageSize = 50;
const exportPage = 200;
/** More than that is read with the API. */
const maxExported = 5000;

interface Filter {
  readonly project_id?: string;
  readonly actor?: string;
  readonly action?: string;
  readonly since?: string;
  readonly until?: string;
}

const fields = ['project_id', 'actor', 'action'] as const;

const timeOf = (text: string | null): string | undefined => {
  const time = text === null || text === '' ? Number.NaN : new Date(text).getTime();
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
};

const filterOf = (search: URLSearchParams): Filter => {
  const [since, until] = [timeOf(search.get('since')), timeOf(search.get('until'))];
  const given = fields.flatMap((name) => {
    const value = search.get(name);
    return value === null || value === '' ? [] : [[name, value] as const];
  });
  return {
    ...Object.fromEntries(given),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
};

const Filters = () => {
  const { org_id: id } = useOrg();
  const [search, setSearch] = useSearch();
  const projects = useQuery({
    queryKey: ['projects', id, 'all'],
    queryFn: () => call('GET /projects', { query: { org_id: id, limit: 200 } }),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = [...fields, 'since', 'until'].map((name) => [name, fieldOf(form, name).trim()] as const);
    setSearch(Object.fromEntries(given.filter(([, value]) => value !== '')));
  };
  return (
    <form className="row" role="search" onSubmit={submit} key={search.toString()}>
      <label className="inline">
        Project
        <select name="project_id" defaultValue={search.get('project_id') ?? ''}>
          <option value="">all</option>
          {projects.data?.projects.map((project) => (
            <option key={project.id} value={project.id}>
              {project.name}
            </option>
          ))}
        </select>
      </label>
      <label className="inline">
        Actor
        <input name="actor" defaultValue={search.get('actor') ?? ''} placeholder="e-mail or id" maxLength={320} />
      </label>
      <label className="inline">
        Action
        <input
          name="action"
          defaultValue={search.get('action') ?? ''}
          placeholder="project."
          maxLength={100}
          size={14}
        />
      </label>
      <label className="inline">
        From
        <input name="since" type="datetime-local" defaultValue={search.get('since') ?? ''} />
      </label>
      <label className="inline">
        To
        <input name="until" type="datetime-local" defaultValue={search.get('until') ?? ''} />
      </label>
      <button type="submit">Search</button>
    </form>
  );
};

const columns = [
  'created_at',
  'actor',
  'action',
  'target_type',
  'target_id',
  'project_id',
  'ip',
  'request_id',
  'before',
  'after',
];

const rowOf = (entry: Entry): readonly unknown[] => [
  entry.created_at,
  entry.actor.email ?? entry.actor.id ?? entry.actor.type,
  entry.action,
  entry.target_type,
  entry.target_id,
  entry.project_id,
  entry.ip,
  entry.request_id,
  entry.before,
  entry.after,
];

const readAll = async ({ headers }: OpenOrg, filter: Filter): Promise<readonly Entry[]> => {
  const entries: Entry[] = [];
  let total = Infinity;
  while (entries.length < Math.min(total, maxExported)) {
    const query = { ...filter, limit: exportPage, offset: entries.length };
    const page = await call('GET /team/audit-log', { headers, query });
    entries.push(...page.entries);
    total = page.entries.length === 0 ? 0 : page.total;
  }
  return entries;
};

const download = (text: string, name: string): void => {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
};

const Export = ({ filter, total }: { readonly filter: Filter; readonly total: number }) => {
  const org = useOrg();
  const write = useMutation({
    mutationFn: () => readAll(org, filter),
    onSuccess: (entries) => download(csvOf(columns, entries.map(rowOf)), `audit-${org.org_id}.csv`),
  });
  if (total === 0) return null;
  return (
    <p className="row">
      <button type="button" disabled={write.isPending} onClick={() => write.mutate()}>
        {write.isPending ? 'Reading…' : 'Download as CSV'}
      </button>
      {total > maxExported && <span className="muted">The newest {maxExported.toLocaleString()} of them.</span>}
      {write.error && <Failure error={write.error} />}
    </p>
  );
};

const nameOf = ({ email, id, type }: Entry['actor']): string => email ?? (type === 'key' ? `key ${id}` : (id ?? type));

const EntryDetails = ({ entry }: { readonly entry: Entry }) => {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <strong>{entry.action}</strong> <span className="muted">by</span> <bdi>{nameOf(entry.actor)}</bdi>{' '}
        <span className="muted">
          {whenOf(entry.created_at)} · {entry.target_type} {entry.target_id}
        </span>
      </summary>
      {isOpen && (
        <>
          <p className="muted">
            Address {entry.ip ?? '–'} · request {entry.request_id ?? '–'} · <bdi>{entry.user_agent ?? '–'}</bdi>
          </p>
          <Changes caption={`${entry.action}, before and after`} before={entry.before} after={entry.after} />
        </>
      )}
    </details>
  );
};

/** The audit log of the organization. */
export const AuditPage = () => {
  const { org_id: id, headers } = useOrg();
  const [search, setSearch] = useSearch();
  const filter = filterOf(search);
  const offset = Number(search.get('offset') ?? 0) || 0;
  const entries = useQuery({
    queryKey: ['audit', id, filter, offset],
    queryFn: ({ signal }) =>
      call('GET /team/audit-log', { headers, query: { ...filter, limit: pageSize, offset }, signal }),
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <h2>Audit log</h2>
      <Filters />
      {entries.error && <Failure error={entries.error} onRetry={() => void entries.refetch()} />}
      {entries.data?.total === 0 && <p className="empty">No entry was found.</p>}
      {entries.data?.entries.map((entry) => (
        <EntryDetails key={entry.id} entry={entry} />
      ))}
      <Pager
        label="entries"
        offset={offset}
        limit={pageSize}
        total={entries.data?.total ?? 0}
        onMove={(to) =>
          setSearch((now) => {
            now.set('offset', String(to));
            return now;
          })
        }
      />
      <Export filter={filter} total={entries.data?.total ?? 0} />
    </>
  );
};
