import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

const NewOrganization = ({ onClose }: { readonly onClose: () => void }) => {
  const [, go] = useLocation();
  const make = useChange((name: string) => call('POST /team/orgs', { body: { org_name: name } }), {
    stale: [['orgs']],
    onDone: ({ org_id: id }) => go(`/orgs/${id}`),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    make.mutate(fieldOf(event.currentTarget, 'name'));
  };
  return (
    <Dialog title="New organization" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Name
          <input name="name" required maxLength={100} />
        </label>
        <p className="muted">You are its owner, and invite others.</p>
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the organization
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** The organizations of who is signed in. */
export const OrgList = () => {
  const [isNew, setNew] = useState(false);
  const orgs = useQuery({ queryKey: ['orgs'], queryFn: () => call('GET /team/orgs', {}) });
  return (
    <>
      <div className="row">
        <h2>Organizations</h2>
        <button type="button" onClick={() => setNew(true)}>
          New organization
        </button>
      </div>
      {orgs.error && <Failure error={orgs.error} onRetry={() => void orgs.refetch()} />}
      <ul className="cards">
        {orgs.data?.map(({ org_id: id, org_name: name, role }) => (
          <li key={id}>
            <Link href={`/orgs/${id}`}>
              <strong>
                <bdi>{name}</bdi>
              </strong>
              <span className="muted">Members, usage and roles · {role}</span>
            </Link>
          </li>
        ))}
      </ul>
      {isNew && <NewOrganization onClose={() => setNew(false)} />}
    </>
  );
};
