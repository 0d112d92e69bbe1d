import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { call, send } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { textOf } from '../../client/exact-json.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { restPath } from '../../client/rest.ts';
import type { Operations } from '../../client/types.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { filterIn } from './documents.ts';
import { Upsert } from './upsert.tsx';

export type Collection =
  Operations['GET /projects/{project_id}/ai/vectors/collections']['answer']['collections'][number];

interface Item {
  readonly id: string;
  readonly content: string;
  readonly metadata: unknown;
}

const countText = (count: number): string => `${count.toLocaleString('en')} ${count === 1 ? 'document' : 'documents'}`;

const pageSize = 50;
const maxShown = 400;

const shortened = (text: string): string => (text.length > maxShown ? `${text.slice(0, maxShown)}…` : text);

/** The nearest documents to a text, with how near they are. */
const Search = ({ collection }: { readonly collection: Collection }) => {
  const { project } = useProject();
  const search = useMutation({
    mutationFn: (form: HTMLFormElement) =>
      call('POST /projects/{project_id}/ai/vectors/collections/{collection}/search', {
        params: { project_id: project.id, collection: collection.name },
        body: {
          query: fieldOf(form, 'query'),
          limit: Number(fieldOf(form, 'limit')),
          filter: filterIn(fieldOf(form, 'filter')),
        },
      }),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    search.mutate(event.currentTarget);
  };
  return (
    <>
      <form className="row" onSubmit={submit}>
        <label className="inline">
          Search
          <input name="query" required dir="auto" />
        </label>
        <label className="inline">
          Filter
          <input name="filter" placeholder='{"language": "en"}' />
        </label>
        <label className="inline">
          At most
          <input name="limit" type="number" min={1} max={200} defaultValue={10} required />
        </label>
        <button type="submit" disabled={search.isPending}>
          Find
        </button>
      </form>
      {search.error && <Failure error={search.error} />}
      {search.data && (
        <Table caption="Results" columns={['Nearness', 'Document', 'Text', 'Metadata']}>
          {search.data.results.map(({ id, content, similarity, metadata }) => (
            <tr key={id}>
              <td>
                <span className="similarity">
                  {similarity.toFixed(3)}
                  <meter aria-label={`Nearness of ${id}`} min={0} max={1} value={Math.max(0, similarity)} />
                </span>
              </td>
              <td>
                <bdi>{id}</bdi>
              </td>
              <td className="found">{shortened(content)}</td>
              <td className="found">
                <code>{shortened(textOf(metadata))}</code>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {search.data?.results.length === 0 && <p className="empty">Nothing is found.</p>}
    </>
  );
};

/** The documents of a collection, by their ids. */
const Items = ({ collection }: { readonly collection: Collection }) => {
  const { project, role } = useProject();
  const [offset, setOffset] = useState(0);
  const [deleting, setDeleting] = useState<string | null>(null);
  const items = useQuery({
    queryKey: ['vectors', project.id, collection.name, 'items', offset],
    queryFn: async () => {
      const query = new URLSearchParams({ select: 'id,content,metadata', order: 'id', limit: String(pageSize) });
      query.set('offset', String(offset));
      return (await send(`${restPath(project.id, collection.name)}?${query}`, {})).body as readonly Item[];
    },
  });
  const remove = useChange(
    (document: string) =>
      call('DELETE /projects/{project_id}/ai/vectors/collections/{collection}/documents/{document}', {
        params: { project_id: project.id, collection: collection.name, document },
      }),
    { stale: [['vectors', project.id]], onDone: () => setDeleting(null) },
  );
  const mayWrite = atLeast(role, 'developer');
  return (
    <>
      {items.error && <Failure error={items.error} onRetry={() => void items.refetch()} />}
      <Table caption="Documents" columns={['Document', 'Text', 'Metadata', ...(mayWrite ? [''] : [])]}>
        {items.data?.map(({ id, content, metadata }) => (
          <tr key={id}>
            <td>
              <bdi>{id}</bdi>
            </td>
            <td className="found">{shortened(content)}</td>
            <td className="found">
              <code>{shortened(textOf(metadata))}</code>
            </td>
            {mayWrite && (
              <td>
                <button type="button" aria-label={`Delete ${id}`} onClick={() => setDeleting(id)}>
                  Delete
                </button>
              </td>
            )}
          </tr>
        ))}
      </Table>
      <Pager label="documents" offset={offset} limit={pageSize} total={collection.document_count} onMove={setOffset} />
      {deleting !== null && (
        <Confirm
          title={`Delete ${deleting}?`}
          action="Delete the document"
          onConfirm={() => remove.mutate(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>The document and its vector are deleted.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};

/** One collection: searched, filled, and deleted. */
export const CollectionView = ({ collection }: { readonly collection: Collection }) => {
  const { project, role } = useProject();
  const [, go] = useLocation();
  const [isDeleting, setDeleting] = useState(false);
  const remove = useChange(
    () =>
      call('DELETE /projects/{project_id}/ai/vectors/collections/{collection}', {
        params: { project_id: project.id, collection: collection.name },
      }),
    { stale: [['vectors', project.id]], onDone: () => go(`/projects/${project.id}/vectors`) },
  );
  const mayWrite = atLeast(role, 'developer');
  return (
    <>
      <div className="row">
        <h2>{collection.name}</h2>
        <span className="muted">
          {countText(collection.document_count)}, {collection.dimensions} dimensions,{' '}
          {collection.index === 'hnsw' ? 'index hnsw' : 'no index'}
          {collection.model !== null && `, ${collection.model}`}
        </span>
        {mayWrite && (
          <button type="button" onClick={() => setDeleting(true)}>
            Delete the collection
          </button>
        )}
      </div>
      {collection.warning !== undefined && <p className="warn">{collection.warning}</p>}
      {mayWrite && (
        <>
          <Search collection={collection} />
          <Upsert collection={collection.name} model={collection.model} />
        </>
      )}
      <Items collection={collection} />
      {isDeleting && (
        <Confirm
          title={`Delete ${collection.name}?`}
          action="Delete the collection"
          onConfirm={() => remove.mutate(undefined)}
          onClose={() => setDeleting(false)}
        >
          <p>
            The table {collection.name} is deleted, with {countText(collection.document_count)}. This cannot be undone.
          </p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};
