import { useState } from 'react';
import { Link } from 'wouter';
import { atLeast, useProject } from '../../client/project.ts';
import { lastSegment } from '../../client/last-segment.ts';
import { useSchema } from '../../client/schema.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { NewTable } from '../tables/new-table.tsx';
import { Diagram } from './diagram.tsx';
import { DropDialog, NewEnum, NewEnumValue } from './forms.tsx';
import { TableDetails } from './table-details.tsx';

/** Names that are shown at once: a list of thousands is searched, and not read. */
const maxListed = 300;

type Schema = NonNullable<ReturnType<typeof useSchema>['data']>;
type Opened = { readonly kind: 'enum' | 'table' } | { readonly kind: 'value' | 'drop'; readonly name: string } | null;

/** The whole of the schema: its diagram, its types and its functions. */
const Overview = ({ schema }: { readonly schema: Schema }) => {
  const { role } = useProject();
  const mayWrite = atLeast(role, 'developer');
  const [opened, setOpened] = useState<Opened>(null);
  const close = (): void => setOpened(null);
  const tables = schema.tables.filter((table) => table.schema === 'public');
  const enums = schema.enums.filter((one) => one.schema === 'public');
  const functions = schema.functions.filter((one) => one.schema === 'public');
  return (
    <>
      <div className="row head">
        <h1>Schema</h1>
        {mayWrite && (
          <button type="button" className="primary" onClick={() => setOpened({ kind: 'table' })}>
            New table
          </button>
        )}
      </div>
      {!mayWrite && <p className="muted">The schema is changed by developers, admins and owners.</p>}
      <Diagram tables={tables} />
      {tables.length === 0 && <p className="empty">There is no table yet.</p>}
      <Table caption="Enumerated types" columns={['Name', 'Values', ...(mayWrite ? [''] : [])]}>
        {enums.map(({ name, values }) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{values.join(', ').slice(0, 300)}</td>
            {mayWrite && (
              <td>
                <button type="button" className="quiet" onClick={() => setOpened({ kind: 'value', name })}>
                  Add a value<span className="unseen"> to {name}</span>
                </button>
                <button type="button" className="quiet" onClick={() => setOpened({ kind: 'drop', name })}>
                  Drop<span className="unseen"> the type {name}</span>
                </button>
              </td>
            )}
          </tr>
        ))}
      </Table>
      {enums.length === 0 && <p className="empty">There are none.</p>}
      {mayWrite && (
        <button type="button" onClick={() => setOpened({ kind: 'enum' })}>
          New enumerated type
        </button>
      )}
      {functions.length > 0 && (
        <Table caption="Functions" columns={['Name', 'Arguments', 'Returns', 'Language']}>
          {functions.slice(0, maxListed).map(({ name, arguments: parameters, returns, language }) => (
            <tr key={`${name} ${parameters}`}>
              <td>{name}</td>
              <td>{parameters}</td>
              <td>{returns}</td>
              <td>{language}</td>
            </tr>
          ))}
        </Table>
      )}
      {opened?.kind === 'table' && <NewTable onClose={close} />}
      {opened?.kind === 'enum' && <NewEnum onClose={close} />}
      {opened?.kind === 'value' && <NewEnumValue name={opened.name} onClose={close} />}
      {opened?.kind === 'drop' && (
        <DropDialog
          title={`Drop the type ${opened.name}`}
          path={`/enums/${encodeURIComponent(opened.name)}`}
          name={opened.name}
          onDone={close}
          onClose={close}
        />
      )}
    </>
  );
};

/** The schema of the project, and each of its tables. */
export const SchemaPage = ({ name }: { readonly name: string | undefined }) => {
  const { project } = useProject();
  const schema = useSchema();
  const [search, setSearch] = useState('');
  if (schema.data === undefined && schema.error)
    return <Failure error={schema.error} onRetry={() => void schema.refetch()} />;
  if (schema.data === undefined) return <p className="loading">Loading…</p>;
  const tables = schema.data.tables.filter((table) => table.schema === 'public');
  const wanted = name === undefined ? undefined : lastSegment();
  const table = tables.find((candidate) => candidate.name === wanted);
  const found = tables.filter((each) => each.name.toLowerCase().includes(search.toLowerCase()));
  const at = `/projects/${project.id}/schema`;
  return (
    <div className="with-list">
      <div className="list-side">
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
          <Link href={at} aria-current={wanted === undefined ? 'page' : undefined}>
            Everything
          </Link>
          {found.slice(0, maxListed).map((each) => (
            <Link
              key={each.name}
              href={`${at}/${encodeURIComponent(each.name)}`}
              aria-current={each.name === wanted ? 'page' : undefined}
            >
              {each.name}
            </Link>
          ))}
          {found.length > maxListed && (
            <p className="muted">{(found.length - maxListed).toLocaleString('en')} more: search for them.</p>
          )}
        </nav>
      </div>
      <section className="fill">
        {table && <TableDetails key={table.name} table={table} tables={tables} />}
        {!table && wanted !== undefined && <p className="empty">There is no table of that name.</p>}
        {wanted === undefined && <Overview schema={schema.data} />}
      </section>
    </div>
  );
};
