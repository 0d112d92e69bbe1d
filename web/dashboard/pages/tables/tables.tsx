import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { send } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { isValue, quotedName, restPath } from '../../client/rest.ts';
import { type SchemaTable, useSchema } from '../../client/schema.ts';
import { EditCell } from '../../components/edit-cell.tsx';
import { Failure } from '../../components/failure.tsx';
import { type Cell, Grid } from '../../components/grid.tsx';

type Row = Readonly<Record<string, unknown>>;

/** Rows of one request. */
const pageSize = 100;

/** One page of rows, for every eye; the request of rows that were scrolled past is given up. */
const usePages = (table: SchemaTable, { order, as, filter, count }: View) => {
  const { project } = useProject();
  const [visible, setVisible] = useState({ from: 0, to: 0 });
  const queries = useQueryClient();
  const key = ['rows', project.id, table.name, order, as, filter, count] as const;
  const read = async (page: number, signal: AbortSignal): Promise<{ rows: Row[]; total: number }> => {
    const query = new URLSearchParams(filter);
    query.set('limit', String(pageSize));
    query.set('offset', String(page * pageSize));
    if (order !== '') query.set('order', order);
    const { response, body } = await send(`${restPath(project.id, table.name)}?${query}`, {
      signal,
      headers: { 'x-plinth-as': as, ...(page === 0 && { prefer: `count=${count}` }) },
    });
    const total = Number(response.headers.get('content-range')?.split('/')[1]);
    return { rows: body as Row[], total: Number.isNaN(total) ? -1 : total };
  };
  const usePage = (page: number) =>
    useQuery({ queryKey: [...key, page], queryFn: ({ signal }) => read(page, signal), staleTime: 30_000 });
  const first = usePage(0);
  const [from, to] = [Math.floor(visible.from / pageSize), Math.floor(Math.max(0, visible.to - 1) / pageSize)];
  usePage(from);
  usePage(to);
  const pageOf = (page: number) => queries.getQueryData<{ rows: Row[] }>([...key, page]);
  return {
    error: first.error,
    isPending: first.isPending,
    total: first.data?.total ?? 0,
    rowAt: (row: number) => pageOf(Math.floor(row / pageSize))?.rows[row % pageSize],
    onVisible: useCallback((start: number, end: number) => setVisible({ from: start, to: end }), []),
    reload: () => queries.invalidateQueries({ queryKey: ['rows', project.id, table.name] }),
  };
};

interface View {
  readonly order: string;
  /** As whom: `service`, `anon`. */
  readonly as: string;
  /** In PostgREST's grammar: `id=gt.5`. */
  readonly filter: string;
  readonly count: 'exact' | 'estimated';
}

/** Tables with fewer rows, by the server's estimate, are counted: an estimate may be too low, and hide rows. */
const maxCounted = 100_000;

const conflict = (): Error =>
  new Error('Somebody else has changed this cell. Nothing was written; load the rows again to see their value.');

const ascending = (name: string): string => `${quotedName(name)}.asc`;
const descending = (name: string): string => `${quotedName(name)}.desc`;

const viewOf = (table: SchemaTable, search: URLSearchParams): View => ({
  order: search.get('order') ?? table.primary_key.map(ascending).join(','),
  as: search.get('as') ?? 'service',
  filter: search.get('filter') ?? '',
  count: search.has('count') || (table.row_estimate ?? 0) < maxCounted ? 'exact' : 'estimated',
});

const TableView = ({ table }: { readonly table: SchemaTable }) => {
  const { project, role } = useProject();
  const [search, setSearch] = useSearchParams();
  const key = table.primary_key;
  const view = viewOf(table, search);
  const pages = usePages(table, view);
  const [editing, setEditing] = useState<Cell | null>(null);
  const set = (name: string, value: string): void =>
    setSearch((known) => {
      const next = new URLSearchParams(known);
      if (value === '') next.delete(name);
      else next.set(name, value);
      return next;
    });
  const write = useMutation({
    mutationFn: async ({ cell, value }: { readonly cell: Cell; readonly value: unknown }) => {
      const [row, column] = [pages.rowAt(cell.row), table.columns[cell.column]];
      if (row === undefined || column === undefined) return;
      const query = new URLSearchParams(key.map((name) => isValue(name, row[name])));
      // The old value is part of the filter, so that a colleague's change is not overwritten.
      const old = row[column.name];
      if (typeof old !== 'object' || old === null) query.append(...isValue(column.name, old));
      const { body } = await send(`${restPath(project.id, table.name)}?${query}`, {
        method: 'PATCH',
        headers: { 'content-type': 'application/json', prefer: 'return=representation' },
        body: JSON.stringify({ [column.name]: value }),
      });
      if ((body as Row[]).length === 0) throw conflict();
    },
    onSuccess: () => setEditing(null),
    onSettled: () => pages.reload(),
  });
  const mayEdit = atLeast(role, 'developer') && key.length > 0 && table.kind === 'table' && view.as === 'service';
  const sort = (name: string): void =>
    set('order', view.order === ascending(name) ? descending(name) : ascending(name));
  const sorted = table.columns.find(({ name }) => [ascending(name), descending(name)].includes(view.order));
  const columns = useMemo(() => table.columns.map(({ name, type }) => ({ name, type })), [table]);
  return (
    <>
      <div className="row">
        <h1>{table.name}</h1>
        <span className="muted">
          {view.count === 'exact' ? '' : 'about '}
          {Math.max(pages.total, 0).toLocaleString('en')} rows
        </span>
        {view.count === 'estimated' && (
          <button type="button" className="quiet" onClick={() => set('count', 'exact')}>
            Count exactly
          </button>
        )}
        <label className="inline">
          Look as
          <select value={view.as} onChange={({ target }) => set('as', target.value === 'service' ? '' : target.value)}>
            <option value="service">the project</option>
            <option value="anon">anon</option>
          </select>
        </label>
        <form
          className="inline"
          onSubmit={(event) => {
            event.preventDefault();
            set('filter', fieldOf(event.currentTarget, 'filter'));
          }}
        >
          <label className="inline">
            Filter
            <input name="filter" defaultValue={view.filter} placeholder="id=gt.5&name=like.A*" />
          </label>
        </form>
        <button type="button" onClick={() => void pages.reload()}>
          Load again
        </button>
      </div>
      {pages.error && <Failure error={pages.error} />}
      {!table.rls.enabled && (
        <p className="muted">
          Row-level security is off: publishable keys and users see nothing of this table until it is on.
        </p>
      )}
      <Grid
        label={`Rows of ${table.name}`}
        columns={columns}
        rowCount={Math.max(0, pages.total)}
        rowAt={pages.rowAt}
        onVisible={pages.onVisible}
        onSort={sort}
        sorted={sorted ? { column: sorted.name, isDescending: view.order === descending(sorted.name) } : null}
        {...(mayEdit && { onEdit: setEditing })}
      />
      {!mayEdit && atLeast(role, 'developer') && (
        <p className="muted">Cells can be changed in tables with a primary key, looked at as the project.</p>
      )}
      {editing !== null && (
        <EditCell
          column={table.columns[editing.column]}
          value={pages.rowAt(editing.row)?.[table.columns[editing.column]?.name ?? '']}
          error={write.error}
          busy={write.isPending}
          onSave={(value) => write.mutate({ cell: editing, value })}
          onClose={() => {
            write.reset();
            setEditing(null);
          }}
        />
      )}
    </>
  );
};

/** The tables of schema public, and the rows of the one that the address names. */
export const TablesPage = ({ name }: { readonly name: string | undefined }) => {
  const { project } = useProject();
  const schema = useSchema();
  if (schema.error) return <Failure error={schema.error} onRetry={() => void schema.refetch()} />;
  if (schema.data === undefined) return <p className="loading">Loading…</p>;
  const tables = schema.data.tables.filter((table) => table.schema === 'public');
  const wanted = name === undefined ? undefined : decodeURIComponent(name);
  const table = tables.find((candidate) => candidate.name === wanted);
  return (
    <div className="with-list">
      <nav aria-label="Tables" className="list">
        {tables.map((each) => (
          <Link
            key={each.name}
            href={`/projects/${project.id}/tables/${encodeURIComponent(each.name)}`}
            aria-current={each.name === wanted ? 'page' : undefined}
          >
            {each.name}
          </Link>
        ))}
        {tables.length === 0 && <p className="empty">No table yet. Make one with SQL.</p>}
      </nav>
      <section className="fill">
        {table && <TableView key={table.name} table={table} />}
        {!table && wanted !== undefined && <p className="empty">There is no table of that name.</p>}
        {!table && wanted === undefined && tables.length > 0 && <p className="empty">Choose a table.</p>}
      </section>
    </div>
  );
};
