import { useState } from 'react';
import { Link } from 'wouter';
import { atLeast, useProject } from '../../client/project.ts';
import { lastSegment } from '../../client/last-segment.ts';
import { useSchema } from '../../client/schema.ts';
import { Failure } from '../../components/failure.tsx';
import { ImportDialog } from './import-dialog.tsx';
import { NewTable } from './new-table.tsx';
import { TableView } from './table-view.tsx';

/** Names that are shown at once: a list of thousands is searched, and not read. */
const maxListed = 300;

/** The tables of schema public, and the rows of the one that the address names. */
export const TablesPage = ({ name }: { readonly name: string | undefined }) => {
  const { project, role } = useProject();
  const schema = useSchema();
  const [search, setSearch] = useState('');
  const [dialog, setDialog] = useState<'new' | 'import' | null>(null);
  if (schema.data === undefined && schema.error)
    return <Failure error={schema.error} onRetry={() => void schema.refetch()} />;
  if (schema.data === undefined) return <p className="loading">Loading…</p>;
  const tables = schema.data.tables.filter((table) => table.schema === 'public');
  const wanted = name === undefined ? undefined : lastSegment();
  const table = tables.find((candidate) => candidate.name === wanted);
  const found = tables.filter((each) => each.name.toLowerCase().includes(search.toLowerCase()));
  return (
    <div className="with-list">
      <div className="list-side">
        {atLeast(role, 'developer') && (
          <div className="row">
            <button type="button" className="primary" onClick={() => setDialog('new')}>
              New table
            </button>
            <button type="button" onClick={() => setDialog('import')}>
              From a file
            </button>
          </div>
        )}
        {tables.length > 10 && (
          <label className="inline">
            <span className="unseen">Search tables</span>
            <input
              type="search"
              value={search}
              placeholder="Search"
              onChange={({ target }) => setSearch(target.value)}
            />
          </label>
        )}
        <nav aria-label="Tables" className="list">
          {found.slice(0, maxListed).map((each) => (
            <Link
              key={each.name}
              href={`/projects/${project.id}/tables/${encodeURIComponent(each.name)}`}
              aria-current={each.name === wanted ? 'page' : undefined}
            >
              {each.name}
            </Link>
          ))}
          {found.length > maxListed && (
            <p className="muted">{(found.length - maxListed).toLocaleString('en')} more: search for them.</p>
          )}
          {tables.length === 0 && <p className="empty">No table yet.</p>}
        </nav>
      </div>
      <section className="fill">
        {table && <TableView key={`${project.id} ${table.name}`} table={table} />}
        {!table && wanted !== undefined && <p className="empty">There is no table of that name.</p>}
        {!table && wanted === undefined && (
          <p className="empty">{tables.length > 0 ? 'Choose a table.' : 'Tables that you make are listed here.'}</p>
        )}
      </section>
      {dialog === 'new' && <NewTable onClose={() => setDialog(null)} />}
      {dialog === 'import' && <ImportDialog table={null} onClose={() => setDialog(null)} />}
    </div>
  );
};
