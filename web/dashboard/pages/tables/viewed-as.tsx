import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

/** Finds one of the project's users. */
const UserPicker = ({ onPick, onClose }: { readonly onPick: (id: string) => void; readonly onClose: () => void }) => {
  const { project } = useProject();
  const [q, setQ] = useState('');
  const users = useQuery({
    queryKey: ['users', project.id, q],
    queryFn: () =>
      call('GET /projects/{project_id}/users', { params: { project_id: project.id }, query: { q, limit: 20 } }),
  });
  return (
    <Dialog title="See the table as a user" onClose={onClose}>
      <label>
        Search by e-mail or id
        <input value={q} autoFocus onChange={({ target }) => setQ(target.value)} />
      </label>
      {users.error && <Failure error={users.error} />}
      <ul className="choices">
        {users.data?.users.map(({ id, email }) => (
          <li key={id}>
            <button type="button" className="quiet" onClick={() => onPick(id)}>
              {email ?? id}
            </button>
          </li>
        ))}
      </ul>
      {users.data?.users.length === 0 && <p className="empty">There is no such user.</p>}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </p>
    </Dialog>
  );
};

const asUser = 'authenticated:';

/** Chooses through whose eyes rows are read: policies decide what anon and a user see. */
export const ViewedAs = ({ as, onChange }: { readonly as: string; readonly onChange: (as: string) => void }) => {
  const [isPicking, setPicking] = useState(false);
  return (
    <>
      <label className="inline">
        Look as
        <select
          value={as.startsWith(asUser) ? asUser : as}
          onChange={({ target }) => (target.value === asUser ? setPicking(true) : onChange(target.value))}
        >
          <option value="service">the project</option>
          <option value="anon">anon</option>
          <option value={asUser}>a user…</option>
        </select>
      </label>
      {as.startsWith(asUser) && (
        <button type="button" className="quiet" onClick={() => setPicking(true)}>
          {as.slice(asUser.length)}
        </button>
      )}
      {isPicking && (
        <UserPicker
          onPick={(id) => {
            setPicking(false);
            onChange(`${asUser}${id}`);
          }}
          onClose={() => setPicking(false)}
        />
      )}
    </>
  );
};
