import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { Compare, Environments } from './environments.tsx';
import { defaultEnvironment } from './flag-shapes.ts';
import { NewFlag } from './new-flag.tsx';
import { ExportFlags, ImportFlags } from './transfer.tsx';
import { useSearch } from '../../client/search.ts';

type Listed = Operations['GET /projects/{project_id}/flags']['answer']['flags'][number];

const pageSize = 50;

const staleWords = { unused: 'not asked for in 30 days', always_alike: 'always the same answer' } as const;

const FlagRow = ({ flag, mayWrite }: { readonly flag: Listed; readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const toggle = useChange(
    () =>
      call('POST /projects/{project_id}/flags/{key}/toggle', {
        params: { project_id: project.id, key: flag.key },
        query: { environment: flag.environment },
        headers: { 'if-match': `"${flag.version}"` },
        body: {},
      }),
    {
      stale: [
        ['flags', project.id],
        ['flag', project.id],
      ],
    },
  );
  const state = flag.is_archived ? 'archived' : flag.is_enabled ? 'on' : 'off';
  return (
    <tr>
      <td>
        <Link href={`/projects/${project.id}/flags/${flag.key}?environment=${flag.environment}`}>{flag.key}</Link>
        {toggle.error && <Failure error={toggle.error} />}
      </td>
      <td className="one-line">
        <bdi>{flag.name}</bdi>
      </td>
      <td>{flag.flag_type}</td>
      <td>
        {mayWrite && !flag.is_archived ? (
          <button
            type="button"
            role="switch"
            aria-checked={flag.is_enabled}
            aria-label={`${flag.key} is ${state}`}
            disabled={toggle.isPending}
            onClick={() => toggle.mutate(undefined)}
          >
            {state}
          </button>
        ) : (
          <span className={state === 'on' ? 'good' : 'muted'}>{state}</span>
        )}
      </td>
      <td>{flag.targeting_rules.length}</td>
      <td className="muted">{flag.stale_reason === null ? '' : staleWords[flag.stale_reason]}</td>
      <td>{whenOf(flag.updated_at)}</td>
    </tr>
  );
};

interface FlagTableProps {
  readonly flags: readonly Listed[];
  readonly mayWrite: boolean;
  readonly isFiltered: boolean;
}

const FlagTable = ({ flags, mayWrite, isFiltered }: FlagTableProps) => {
  if (flags.length === 0)
    return <p className="empty">{isFiltered ? 'No flag was found.' : 'There are no flags in this environment.'}</p>;
  return (
    <Table caption="Flags" isCaptionHidden columns={['Key', 'Name', 'Type', 'State', 'Rules', 'Stale', 'Changed']}>
      {flags.map((flag) => (
        <FlagRow key={flag.key} flag={flag} mayWrite={mayWrite} />
      ))}
    </Table>
  );
};

type Opened = 'new' | 'environments' | 'import' | null;

interface ToolsProps {
  readonly environment: string;
  readonly mayWrite: boolean;
  readonly onOpen: (what: Opened) => void;
}

const Tools = ({ environment, mayWrite, onOpen }: ToolsProps) => (
  <div className="row">
    <h1>Flags</h1>
    {mayWrite && (
      <button type="button" className="primary" onClick={() => onOpen('new')}>
        New flag
      </button>
    )}
    {mayWrite && (
      <button type="button" onClick={() => onOpen('environments')}>
        Environments
      </button>
    )}
    <ExportFlags environment={environment} />
    {mayWrite && (
      <button type="button" onClick={() => onOpen('import')}>
        Import
      </button>
    )}
  </div>
);

interface FiltersProps {
  readonly names: readonly string[];
  readonly environment: string;
  readonly filter: ReturnType<typeof filterOf>;
  readonly onSet: (change: Readonly<Record<string, string>>) => void;
}

const Filters = ({ names, environment, filter: { q, stale, archived, other }, onSet }: FiltersProps) => {
  const find = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    onSet({ q: fieldOf(event.currentTarget, 'q').trim() });
  };
  return (
    <form className="row" role="search" onSubmit={find} key={q}>
      <label className="inline">
        Environment
        <select value={environment} onChange={({ target }) => onSet({ environment: target.value })}>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label className="inline">
        Key or name
        <input name="q" type="search" defaultValue={q} maxLength={100} />
      </label>
      <label className="inline">
        <input
          type="checkbox"
          checked={stale === 'true'}
          onChange={({ target }) => onSet({ stale: target.checked ? 'true' : '' })}
        />
        Stale ones
      </label>
      <label className="inline">
        <input
          type="checkbox"
          checked={archived === 'true'}
          onChange={({ target }) => onSet({ archived: target.checked ? 'true' : '' })}
        />
        Archived ones
      </label>
      <label className="inline">
        Compare with
        <select value={other} onChange={({ target }) => onSet({ compare: target.value })}>
          <option value="">nothing</option>
          {names
            .filter((name) => name !== environment)
            .map((name) => (
              <option key={name}>{name}</option>
            ))}
        </select>
      </label>
      <button type="submit">Search</button>
    </form>
  );
};

const filterOf = (search: URLSearchParams) => ({
  environment: search.get('environment') ?? defaultEnvironment,
  q: search.get('q') ?? '',
  stale: search.get('stale') ?? '',
  archived: search.get('archived') ?? '',
  other: search.get('compare') ?? '',
  offset: Number(search.get('offset') ?? 0) || 0,
});

/** The feature flags of an environment. */
export const FlagsPage = () => {
  const { project, role } = useProject();
  const [, go] = useLocation();
  const [search, setSearch] = useSearch();
  const [opened, setOpened] = useState<Opened>(null);
  const filter = filterOf(search);
  const { environment, q, stale, archived, other, offset } = filter;
  const params = { project_id: project.id };
  const environments = useQuery({
    queryKey: ['environments', project.id],
    queryFn: () => call('GET /projects/{project_id}/environments', { params }),
  });
  const flags = useQuery({
    queryKey: ['flags', project.id, environment, q, stale, archived, offset],
    queryFn: ({ signal }) =>
      call('GET /projects/{project_id}/flags', {
        params,
        query: {
          environment,
          q,
          archived: archived === 'true' ? 'true' : 'false',
          ...(stale === 'true' && { stale: 'true' as const }),
          limit: pageSize,
          offset,
        },
        signal,
      }),
    placeholderData: keepPreviousData,
  });
  const set = (change: Readonly<Record<string, string>>): void =>
    setSearch((now) => {
      for (const [name, value] of Object.entries({ offset: '', ...change })) {
        if (value === '') now.delete(name);
        else now.set(name, value);
      }
      return now;
    });
  const names = [
    ...new Set([defaultEnvironment, environment, ...(environments.data?.environments ?? []).map(({ name }) => name)]),
  ];
  const mayWrite = atLeast(role, 'developer');
  const error = environments.error ?? flags.error;
  return (
    <>
      <Tools environment={environment} mayWrite={mayWrite} onOpen={setOpened} />
      {!mayWrite && <p className="muted">Flags are made and changed by developers, admins and owners.</p>}
      <Filters names={names} environment={environment} filter={filter} onSet={set} />
      {error && <Failure error={error} onRetry={() => void flags.refetch()} />}
      {other !== '' && other !== environment && <Compare from={other} to={environment} />}
      {flags.data !== undefined && (
        <FlagTable
          flags={flags.data.flags}
          mayWrite={mayWrite}
          isFiltered={q !== '' || stale !== '' || archived !== ''}
        />
      )}
      <Pager
        label="flags"
        offset={offset}
        limit={pageSize}
        shown={flags.data?.flags.length ?? 0}
        total={flags.data?.total ?? 0}
        onMove={(to) => set({ offset: String(to) })}
      />
      {opened === 'new' && (
        <NewFlag
          environment={environment}
          onMade={(key) => go(`/projects/${project.id}/flags/${key}?environment=${environment}`)}
          onClose={() => setOpened(null)}
        />
      )}
      {opened === 'environments' && <Environments onClose={() => setOpened(null)} />}
      {opened === 'import' && <ImportFlags environment={environment} onClose={() => setOpened(null)} />}
    </>
  );
};
