import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { NewUser } from './new-user.tsx';
import { stateOf } from './user-state.ts';
import { ImportUsers, Imports } from './imports.tsx';
import { useSearch } from '../../client/search.ts';

const pageSize = 50;

type Listed = Operations['GET /projects/{project_id}/users']['answer']['users'];

const UserTable = ({ users, isFiltered }: { readonly users: Listed; readonly isFiltered: boolean }) => {
  const { project } = useProject();
  if (users.length === 0)
    return <p className="empty">{isFiltered ? 'Nobody was found.' : 'Nobody has signed up yet.'}</p>;
  return (
    <Table caption="Users" isCaptionHidden columns={['User', 'State', 'Signs in by', 'Last sign-in', 'Since']}>
      {users.map((user) => (
        <tr key={user.id}>
          <td>
            <Link href={`/projects/${project.id}/users/${user.id}`}>
              <bdi>{user.email ?? user.id}</bdi>
            </Link>
          </td>
          <td className={user.banned_until === null ? undefined : 'bad'}>{stateOf(user)}</td>
          <td>{user.providers.join(', ') || '–'}</td>
          <td>{whenOf(user.last_sign_in_at)}</td>
          <td>{whenOf(user.created_at)}</td>
        </tr>
      ))}
    </Table>
  );
};

/** The users of the project's application: found by address or id, made, invited and moved in. */
export const UsersPage = () => {
  const { project, role } = useProject();
  const [, go] = useLocation();
  const [search, setSearch] = useSearch();
  const [dialog, setDialog] = useState<'new' | 'invite' | 'import' | null>(null);
  const [q, provider] = [search.get('q') ?? '', search.get('provider') ?? ''];
  const offset = Number(search.get('offset') ?? 0) || 0;
  const params = { project_id: project.id };
  const users = useQuery({
    queryKey: ['users', project.id, q, provider, offset],
    queryFn: ({ signal }) =>
      call('GET /projects/{project_id}/users', { params, query: { q, provider, offset, limit: pageSize }, signal }),
    placeholderData: keepPreviousData,
  });
  const find = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = { q: fieldOf(form, 'q').trim(), provider: fieldOf(form, 'provider').trim() };
    setSearch(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== '')));
  };
  const move = (to: number): void =>
    setSearch((now) => {
      now.set('offset', String(to));
      return now;
    });
  const mayWrite = atLeast(role, 'developer');
  return (
    <>
      <div className="row">
        <h1>Users</h1>
        {mayWrite && (
          <>
            <button type="button" className="primary" onClick={() => setDialog('new')}>
              New user
            </button>
            <button type="button" onClick={() => setDialog('invite')}>
              Invite
            </button>
            <button type="button" onClick={() => setDialog('import')}>
              Import
            </button>
          </>
        )}
      </div>
      {!mayWrite && <p className="muted">Users are made and changed by developers, admins and owners.</p>}
      <form className="row" role="search" onSubmit={find} key={`${q} ${provider}`}>
        <label className="inline">
          Address or id
          <input name="q" type="search" defaultValue={q} maxLength={320} placeholder="ada@" />
        </label>
        <label className="inline">
          Provider
          <input name="provider" defaultValue={provider} maxLength={63} placeholder="any" size={10} />
        </label>
        <button type="submit">Search</button>
        {(q !== '' || provider !== '') && (
          <button type="button" className="quiet" onClick={() => setSearch({})}>
            Show all
          </button>
        )}
      </form>
      {users.error && <Failure error={users.error} onRetry={() => void users.refetch()} />}
      {users.data !== undefined && <UserTable users={users.data.users} isFiltered={q !== '' || provider !== ''} />}
      <Pager label="users" offset={offset} limit={pageSize} total={users.data?.total ?? 0} onMove={move} />
      <Imports />
      {(dialog === 'new' || dialog === 'invite') && (
        <NewUser
          kind={dialog}
          onMade={(id) => go(`/projects/${project.id}/users/${id}`)}
          onClose={() => setDialog(null)}
        />
      )}
      {dialog === 'import' && <ImportUsers onClose={() => setDialog(null)} />}
    </>
  );
};
