import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useOrg } from '../../client/org.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { TypeName } from '../../components/type-name.tsx';

const Rename = () => {
  const { org_name: name, headers } = useOrg();
  const rename = useChange((to: string) => call('PATCH /team/orgs/current', { headers, body: { org_name: to } }), {
    stale: [['orgs']],
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    rename.mutate(fieldOf(event.currentTarget, 'name'));
  };
  return (
    <form className="settings" onSubmit={submit}>
      <label>
        Name of the organization
        <input name="name" required maxLength={100} defaultValue={name} />
      </label>
      {rename.error && <Failure error={rename.error} />}
      <p className="row">
        <button type="submit" className="primary" disabled={rename.isPending}>
          Rename
        </button>
        <span role="status">{rename.isSuccess ? 'Renamed.' : ''}</span>
      </p>
    </form>
  );
};

const Transfer = () => {
  const { org_id: id, headers } = useOrg();
  const [to, setTo] = useState<{ readonly id: string; readonly email: string } | null>(null);
  const members = useQuery({ queryKey: ['members', id], queryFn: () => call('GET /team/members', { headers }) });
  const transfer = useChange(
    (member: string) => call('POST /team/orgs/current/transfer', { headers, body: { member_id: member } }),
    { stale: [['orgs'], ['members', id]], onDone: () => setTo(null) },
  );
  const others = (members.data ?? []).filter(({ status, role }) => status === 'active' && role !== 'owner');
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    setTo(others.find((member) => member.id === fieldOf(event.currentTarget, 'member')) ?? null);
  };
  return (
    <>
      <h2>Hand the organization over</h2>
      {others.length === 0 ? (
        <p className="muted">There is no other member who could own it.</p>
      ) : (
        <form className="settings" onSubmit={submit}>
          <label>
            New owner
            <select name="member" required>
              {others.map((member) => (
                <option key={member.id} value={member.id}>
                  {member.email}
                </option>
              ))}
            </select>
          </label>
          <button type="submit">Hand over</button>
        </form>
      )}
      {to !== null && (
        <Confirm
          title="Hand the organization over?"
          action="Hand over"
          onConfirm={() => transfer.mutate(to.id)}
          onClose={() => setTo(null)}
        >
          <p>
            <bdi>{to.email}</bdi> becomes the owner; you stay as an admin. Only the new owner can undo this.
          </p>
          {transfer.error && <Failure error={transfer.error} />}
        </Confirm>
      )}
    </>
  );
};

const Delete = () => {
  const { org_id: id, org_name: name, headers } = useOrg();
  const [, go] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const projects = useQuery({
    queryKey: ['projects', id, 'all'],
    queryFn: () => call('GET /projects', { query: { org_id: id, limit: 200 } }),
  });
  const remove = useChange(() => call('DELETE /team/orgs/current', { headers }), {
    stale: [['projects'], ['orgs']],
    onDone: () => go('/', { replace: true }),
  });
  const names = projects.data?.projects.map((project) => project.name) ?? [];
  return (
    <>
      <h2>Delete the organization</h2>
      <p>All its projects go with it, and nobody has access any more.</p>
      <button type="button" className="danger" onClick={() => setOpen(true)}>
        Delete the organization
      </button>
      {isOpen && (
        <TypeName
          title={`Delete ${name}?`}
          name={name}
          action="Delete everything"
          error={remove.error}
          busy={remove.isPending}
          onConfirm={() => remove.mutate(undefined)}
          onClose={() => setOpen(false)}
        >
          <p>
            {names.length === 0
              ? 'It has no projects.'
              : `These projects are deleted, with tables, users, functions and files: ${names.join(', ')}.`}
          </p>
          <p>Databases are kept for 7 days, in which operators can restore projects; then they are dropped.</p>
        </TypeName>
      )}
    </>
  );
};

/** Name, owner and end of the organization. */
export const OrgSettingsPage = () => {
  const { role } = useOrg();
  return (
    <>
      <h2>Name</h2>
      <Rename />
      {role === 'owner' ? (
        <>
          <Transfer />
          <Delete />
        </>
      ) : (
        <p className="muted">Owners hand the organization over and delete it.</p>
      )}
    </>
  );
};
