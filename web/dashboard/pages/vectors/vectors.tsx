import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { CollectionView } from './collection.tsx';

const usualDimensions = 1536;

/** A new collection: a table with vectors of one length. */
const NewCollection = ({ onClose }: { readonly onClose: () => void }) => {
  const { project } = useProject();
  const [, go] = useLocation();
  const make = useChange(
    (body: { name: string; dimensions: number }) =>
      call('POST /projects/{project_id}/ai/vectors/collections', { params: { project_id: project.id }, body }),
    {
      stale: [
        ['vectors', project.id],
        ['schema', project.id],
      ],
      onDone: ({ name }) => {
        onClose();
        go(`/projects/${project.id}/vectors/${name}`);
      },
    },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({ name: fieldOf(form, 'name'), dimensions: Number(fieldOf(form, 'dimensions')) });
  };
  return (
    <Dialog title="New collection" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Name
          <input name="name" required pattern="[a-z][a-z0-9_]{0,40}" placeholder="small letters, digits and _" />
        </label>
        <label>
          Dimensions, as the model of its texts has them
          <input name="dimensions" type="number" required min={1} max={16_000} defaultValue={usualDimensions} />
        </label>
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the collection
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** The collections of vectors, and the one that the address names. */
export const VectorsPage = ({ name }: { readonly name: string | undefined }) => {
  const { project, role } = useProject();
  const [isNew, setNew] = useState(false);
  const collections = useQuery({
    queryKey: ['vectors', project.id],
    queryFn: () =>
      call('GET /projects/{project_id}/ai/vectors/collections', {
        params: { project_id: project.id },
        query: { limit: 200 },
      }),
  });
  if (collections.data === undefined && collections.error)
    return <Failure error={collections.error} onRetry={() => void collections.refetch()} />;
  if (collections.data === undefined) return <p className="loading">Loading…</p>;
  const all = collections.data.collections;
  const open = all.find((one) => one.name === name);
  return (
    <>
      <div className="row">
        <h1>Vectors</h1>
        {atLeast(role, 'developer') ? (
          <button type="button" onClick={() => setNew(true)}>
            New collection
          </button>
        ) : (
          <span className="muted">Collections are made, searched and filled by developers.</span>
        )}
      </div>
      <div className="with-list">
        <nav aria-label="Collections" className="list">
          {all.map((one) => (
            <Link
              key={one.name}
              href={`/projects/${project.id}/vectors/${one.name}`}
              aria-current={one.name === name ? 'page' : undefined}
            >
              {one.name}
            </Link>
          ))}
          {all.length === 0 && <p className="empty">No collection yet.</p>}
        </nav>
        <section className="fill">
          {open && <CollectionView key={open.name} collection={open} />}
          {!open && name !== undefined && <p className="empty">There is no collection of that name.</p>}
          {!open && name === undefined && all.length > 0 && <p className="empty">Choose a collection.</p>}
        </section>
      </div>
      {isNew && <NewCollection onClose={() => setNew(false)} />}
    </>
  );
};
