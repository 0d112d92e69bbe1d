import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { whenOf } from '../../client/when.ts';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';

const pageSize = 20;
const kinds: Readonly<Record<string, string>> = { api: 'API' };

/** Where the account is signed in; each sign-in can be ended. */
export const Sessions = () => {
  const [offset, setOffset] = useState(0);
  const sessions = useQuery({
    queryKey: ['my-sessions', offset],
    queryFn: () => call('GET /auth/sessions', { query: { limit: pageSize, offset } }),
  });
  const stale = [['my-sessions']];
  const end = useChange((id: string) => call('DELETE /auth/sessions/{id}', { params: { id } }), { stale });
  const endOthers = useChange(() => call('DELETE /auth/sessions', {}), { stale });
  const error = sessions.error ?? end.error ?? endOthers.error;
  const all = sessions.data?.sessions ?? [];
  return (
    <>
      <div className="row">
        <h2>Sign-ins</h2>
        {(sessions.data?.total ?? 0) > 1 && (
          <button type="button" disabled={endOthers.isPending} onClick={() => endOthers.mutate(undefined)}>
            End all others
          </button>
        )}
      </div>
      {error && <Failure error={error} />}
      <Table caption="Sign-ins" isCaptionHidden columns={['Began', 'Used', 'For', 'Address', 'Program', 'End']}>
        {all.map((session) => (
          <tr key={session.id}>
            <td>{whenOf(session.created_at)}</td>
            <td>{whenOf(session.last_seen_at)}</td>
            <td>{kinds[session.kind] ?? session.kind}</td>
            <td>{session.ip ?? '–'}</td>
            <td className="one-line agent" title={session.user_agent ?? undefined}>
              <bdi>{session.user_agent ?? '–'}</bdi>
            </td>
            <td>
              {session.current ? (
                <span className="muted">this one</span>
              ) : (
                <button type="button" onClick={() => end.mutate(session.id)}>
                  End
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      <Pager label="sign-ins" offset={offset} limit={pageSize} total={sessions.data?.total ?? 0} onMove={setOffset} />
    </>
  );
};
