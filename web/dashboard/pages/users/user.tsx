import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { whenOf } from '../../client/when.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { UserDialogs, type UserAct } from './user-dialogs.tsx';
import { Metadata } from './metadata.tsx';
import { type WholeUser, stateOf } from './user-state.ts';

const Facts = ({ user }: { readonly user: WholeUser }) => (
  <dl className="facts">
    <dt>State</dt>
    <dd className={user.banned_until === null ? undefined : 'bad'}>
      {stateOf(user)}
      {user.banned_until !== null && ` until ${whenOf(user.banned_until)}`}
    </dd>
    <dt>Password</dt>
    <dd>{user.has_password ? 'set' : 'none'}</dd>
    <dt>Last sign-in</dt>
    <dd>{whenOf(user.last_sign_in_at)}</dd>
    <dt>Invited</dt>
    <dd>{whenOf(user.invited_at)}</dd>
    <dt>Since</dt>
    <dd>{whenOf(user.created_at)}</dd>
  </dl>
);

const Sessions = ({ uid, onEnd }: { readonly uid: string; readonly onEnd: () => void }) => {
  const { project } = useProject();
  const sessions = useQuery({
    queryKey: ['user-sessions', project.id, uid],
    queryFn: () => call('GET /projects/{project_id}/users/{uid}/sessions', { params: { project_id: project.id, uid } }),
  });
  if (sessions.data === undefined && sessions.error)
    return <Failure error={sessions.error} onRetry={() => void sessions.refetch()} />;
  const all = sessions.data?.sessions ?? [];
  return (
    <>
      <div className="row">
        <h2>Sign-ins</h2>
        {all.length > 0 && (
          <button type="button" onClick={onEnd}>
            Sign out everywhere
          </button>
        )}
      </div>
      {sessions.data !== undefined && all.length === 0 && <p className="empty">The user is signed in nowhere.</p>}
      {all.length > 0 && (
        <Table caption="Sign-ins" isCaptionHidden columns={['Began', 'Used', 'By', 'Level', 'Address', 'Program']}>
          {all.map((session) => (
            <tr key={session.id}>
              <td>{whenOf(session.created_at)}</td>
              <td>{whenOf(session.refreshed_at)}</td>
              <td>
                {session.method === 'impersonation' ? `the team, until ${whenOf(session.ends_at)}` : session.method}
              </td>
              <td>{session.aal === 2 ? 'two factors' : 'one factor'}</td>
              <td>{session.ip ?? '–'}</td>
              <td className="one-line agent" title={session.user_agent ?? undefined}>
                <bdi>{session.user_agent ?? '–'}</bdi>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
};

const Ways = ({
  user,
  mayWrite,
  onAct,
}: {
  readonly user: WholeUser;
  readonly mayWrite: boolean;
  readonly onAct: (act: UserAct) => void;
}) => (
  <>
    <h2>Identities</h2>
    {user.identities.length === 0 ? (
      <p className="empty">The user has no identity.</p>
    ) : (
      <Table caption="Identities" isCaptionHidden columns={['Provider', 'Address', 'Last used', 'Since']}>
        {user.identities.map((one) => (
          <tr key={one.id}>
            <td>{one.provider}</td>
            <td>
              <bdi>{one.email ?? '–'}</bdi>
            </td>
            <td>{whenOf(one.last_sign_in_at)}</td>
            <td>{whenOf(one.created_at)}</td>
          </tr>
        ))}
      </Table>
    )}
    <h2>Second factors</h2>
    {user.factors.length === 0 ? (
      <p className="empty">The user has no second factor.</p>
    ) : (
      <Table
        caption="Second factors"
        isCaptionHidden
        columns={['Name', 'Kind', 'State', 'Since', ...(mayWrite ? ['Remove'] : [])]}
      >
        {user.factors.map((one) => (
          <tr key={one.id}>
            <td>
              <bdi>{one.friendly_name || '–'}</bdi>
            </td>
            <td>{one.type}</td>
            <td>{one.status}</td>
            <td>{whenOf(one.created_at)}</td>
            {mayWrite && (
              <td>
                <button type="button" onClick={() => onAct({ kind: 'factor', id: one.id, name: one.friendly_name })}>
                  Remove
                </button>
              </td>
            )}
          </tr>
        ))}
      </Table>
    )}
  </>
);

interface ActsProps {
  readonly user: WholeUser;
  readonly isAdmin: boolean;
  readonly onAct: (act: UserAct) => void;
}

const Acts = ({ user, isAdmin, onAct }: ActsProps) => (
  <p className="row">
    {isAdmin && user.banned_until === null && (
      <button type="button" onClick={() => onAct({ kind: 'sign-in-as' })}>
        Sign in as
      </button>
    )}
    {user.email !== null && (
      <button type="button" onClick={() => onAct({ kind: 'reset' })}>
        Reset link
      </button>
    )}
    {user.banned_until === null ? (
      <button type="button" onClick={() => onAct({ kind: 'ban' })}>
        Ban
      </button>
    ) : (
      <button type="button" onClick={() => onAct({ kind: 'unban' })}>
        End the ban
      </button>
    )}
    <button type="button" onClick={() => onAct({ kind: 'delete' })}>
      Delete
    </button>
    {!isAdmin && <span className="muted">Signing in as a user needs the role admin.</span>}
  </p>
);

/** One user: how they sign in, where they are, what the project keeps about them. */
export const UserPage = ({ id: uid }: { readonly id: string }) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const [, go] = useLocation();
  const [act, setAct] = useState<UserAct | null>(null);
  const user = useQuery({
    queryKey: ['user', project.id, uid],
    queryFn: () => call('GET /projects/{project_id}/users/{uid}', { params: { project_id: project.id, uid } }),
  });
  const mayWrite = atLeast(role, 'developer');
  const base = `/projects/${project.id}/users`;
  const done = (kind: UserAct['kind']): void => {
    setAct(null);
    if (kind === 'delete') {
      queries.removeQueries({ queryKey: ['user', project.id, uid] });
      go(base);
    }
  };
  return (
    <>
      <p>
        <Link href={base}>All users</Link>
      </p>
      {user.error && <Failure error={user.error} onRetry={() => void user.refetch()} />}
      {user.data !== undefined && (
        <>
          <h1>
            <bdi>{user.data.email ?? 'Anonymous user'}</bdi>
          </h1>
          <Copyable label="Id" text={user.data.id} />
          {mayWrite && <Acts user={user.data} isAdmin={atLeast(role, 'admin')} onAct={setAct} />}
          {!mayWrite && <p className="muted">Users are changed by developers, admins and owners.</p>}
          <Facts user={user.data} />
          {mayWrite && <Sessions uid={uid} onEnd={() => setAct({ kind: 'sign-out' })} />}
          <Ways user={user.data} mayWrite={mayWrite} onAct={setAct} />
          <Metadata user={user.data} mayWrite={mayWrite} />
          {act !== null && <UserDialogs user={user.data} act={act} onDone={done} onClose={() => setAct(null)} />}
        </>
      )}
    </>
  );
};
