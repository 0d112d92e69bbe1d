import { useCallback, useMemo, useRef, useState } from 'react';
import { counted } from '../../client/counted.ts';
import { orderOf, termsOf } from '../../client/conditions.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import { countOf, stageInsert } from '../../client/staged.ts';
import { LongValue, type Row, isGenerated } from '../../client/values.ts';
import { Failure } from '../../components/failure.tsx';
import { type CellRange, Grid, type GridHandle, byDefault } from '../../components/grid.tsx';
import { CellBar } from './cell-bar.tsx';
import { ExportDialog } from './export-dialog.tsx';
import { FilterBar } from './filter-bar.tsx';
import { ImportDialog } from './import-dialog.tsx';
import { NewColumn } from './new-table.tsx';
import { SaveBar } from './save-bar.tsx';
import { KeysDialog } from './keys-dialog.tsx';
import { maxRows, useEditing } from './use-editing.tsx';
import { type View, primaryOrder, readRow, useRows, viewOf } from './use-rows.ts';
import { useSave } from './use-save.ts';
import { useStaged } from './use-staged.ts';
import { useTable } from './use-table.ts';
import { ValueDialog } from './value-dialog.tsx';
import { ViewedAs } from './viewed-as.tsx';
import { useSearch } from '../../client/search.ts';

/** The view that the address says, and a way to change it. */
const useView = (table: SchemaTable) => {
  const [search, setSearch] = useSearch();
  const set = (name: string, value: string): void =>
    setSearch((known) => {
      const next = new URLSearchParams(known);
      if (value === '') next.delete(name);
      else next.set(name, value);
      return next;
    });
  return { view: viewOf(table, search), set };
};

/** Up, down, and back to the order of the primary key. */
const nextOrder = (table: SchemaTable, view: View, column: string): string => {
  const [term] = termsOf(view.order) ?? [];
  const isOwn = view.order !== primaryOrder(table);
  if (term?.column !== column || !isOwn) return orderOf([{ column, isDescending: false }]);
  return term.isDescending ? '' : orderOf([{ column, isDescending: true }]);
};

const isTable = ({ kind }: SchemaTable): boolean => kind === 'table' || kind === 'partitioned';

/** Why cells cannot be changed, in words; null: they can. */
const refusalOf = (table: SchemaTable, view: View, mayWrite: boolean): string | null => {
  if (!mayWrite) return 'Rows are changed by developers, admins and owners.';
  if (view.as !== 'service') return 'Rows are changed as the project only.';
  if (!isTable(table)) return 'The rows of a view are changed in its tables.';
  return table.primary_key.length === 0
    ? 'Rows of a table without a primary key cannot be told apart: they can be added, and not changed.'
    : null;
};

const markOf = (table: SchemaTable, name: string): string | undefined => {
  if (table.primary_key.includes(name)) return 'key';
  const key = table.foreign_keys.find(({ columns }) => columns.includes(name));
  return key === undefined ? undefined : `→ ${key.references.table}`;
};

const everything: CellRange = {
  from: { row: 0, column: 0 },
  to: { row: 0, column: 0 },
  active: { row: 0, column: 0 },
};

type OpenDialog = 'import' | 'export' | 'column' | 'keys' | null;

/** Adding, doubling and deleting rows; everything waits until it is saved. */
const useRowActions = (table: SchemaTable, model: ReturnType<typeof useTable>, edits: ReturnType<typeof useStaged>) => {
  const { project } = useProject();
  const rowsOf = async ({ from, to }: CellRange): Promise<number[]> => {
    const count = Math.min(to.row - from.row + 1, model.rowCount - from.row);
    if (count > maxRows) throw new Error(`At most ${maxRows} rows can be changed at once.`);
    await model.load(from.row, from.row + count);
    return Array.from({ length: count }, (_, index) => from.row + index);
  };
  /** The values of a row without those that a new one gets by itself. */
  const copyOf = async (row: number): Promise<Row> => {
    const values = model.rowAt(row) ?? {};
    const key = Object.fromEntries(table.primary_key.map((name) => [name, values[name]]));
    const isShort = !Object.values(values).some((value) => value instanceof LongValue);
    const whole = isShort ? values : ((await readRow(project.id, table.name, key)) ?? {});
    const own = table.columns.filter(
      (column) =>
        !isGenerated(column) &&
        whole[column.name] !== byDefault &&
        !(table.primary_key.includes(column.name) && (column.default !== null || column.generated !== null)),
    );
    return Object.fromEntries(own.map(({ name }) => [name, whole[name]]));
  };
  return {
    insert: () => edits.change(stageInsert(edits.staged, [{}])),
    duplicate: async (range: CellRange) => {
      const copies = await Promise.all((await rowsOf(range)).map(copyOf));
      edits.change(stageInsert(edits.staged, copies));
    },
    remove: async (range: CellRange) => edits.change(model.remove(edits.staged, await rowsOf(range))),
  };
};

interface HeadProps {
  readonly table: SchemaTable;
  readonly view: View;
  /** Null while they are not counted. */
  readonly total: number | null;
  readonly mayInsert: boolean;
  readonly onSet: (name: string, value: string) => void;
  readonly onReload: () => void;
  readonly onOpen: (dialog: OpenDialog) => void;
}

/** The name of the table, how many rows it has, and what can be done with all of it. */
const TableHead = ({ table, view, total, mayInsert, onSet, onReload, onOpen }: HeadProps) => (
  <div className="row head">
    <div className="row">
      <h1>{table.name}</h1>
      <span className="muted" role="status">
        {total === null ? 'Loading…' : `${view.count === 'exact' ? '' : 'about '}${counted(total, 'row')}`}
      </span>
      {view.count === 'estimated' && (
        <button type="button" className="quiet" onClick={() => onSet('count', 'exact')}>
          Count exactly
        </button>
      )}
    </div>
    <div className="row">
      <ViewedAs as={view.as} onChange={(as) => onSet('as', as === 'service' ? '' : as)} />
      <button type="button" onClick={onReload}>
        Load again
      </button>
      <button type="button" onClick={() => onOpen('export')}>
        Export
      </button>
      {mayInsert && (
        <>
          <button type="button" onClick={() => onOpen('import')}>
            Import
          </button>
          <button type="button" onClick={() => onOpen('column')}>
            New column
          </button>
        </>
      )}
    </div>
  </div>
);

interface RowButtonsProps {
  readonly mayChange: boolean;
  readonly onInsert: () => void;
  readonly onDuplicate: () => void;
  readonly onDelete: () => void;
  readonly onKeys: () => void;
}

/** Adds rows, and doubles and deletes those that are selected. */
const RowButtons = ({ mayChange, onInsert, onDuplicate, onDelete, onKeys }: RowButtonsProps) => (
  <div className="row">
    <button type="button" onClick={onInsert}>
      Insert a row
    </button>
    {mayChange && (
      <>
        <button type="button" onClick={onDuplicate}>
          Duplicate
        </button>
        <button type="button" onClick={onDelete}>
          Delete
        </button>
      </>
    )}
    <button type="button" className="quiet" onClick={onKeys}>
      Keys
    </button>
  </div>
);

interface DialogsProps {
  readonly dialog: OpenDialog;
  readonly table: SchemaTable;
  readonly view: View;
  readonly total: number;
  readonly onImported: () => void;
  readonly onClose: () => void;
}

const Dialogs = ({ dialog, table, view, total, onImported, onClose }: DialogsProps) => {
  if (dialog === 'keys') return <KeysDialog onClose={onClose} />;
  if (dialog === 'column') return <NewColumn table={table.name} onClose={onClose} />;
  if (dialog === 'export') return <ExportDialog {...{ table, view, total, onClose }} />;
  if (dialog !== 'import') return null;
  return (
    <ImportDialog
      table={table}
      onClose={(isDone) => {
        if (isDone) onImported();
        onClose();
      }}
    />
  );
};

const SavedNote = ({ count }: { readonly count: number }) => (
  <p role="status" className="good">
    {count > 0 && `${count} ${count === 1 ? 'change is' : 'changes are'} saved.`}
  </p>
);

/** The rows of one table: read as the address says, and changed together. */
export const TableView = ({ table }: { readonly table: SchemaTable }) => {
  const { project, role } = useProject();
  const { view, set } = useView(table);
  const pages = useRows(table, view);
  const edits = useStaged(project.id, table.name);
  const model = useTable(table, pages, edits.staged);
  const grid = useRef<GridHandle>(null);
  const [range, setRange] = useState<CellRange>(everything);
  const [dialog, setDialog] = useState<OpenDialog>(null);
  const [savedCount, setSavedCount] = useState(0);
  const saving = useSave(table, (saved) => {
    setSavedCount(countOf(saved));
    edits.clear();
    pages.reload();
    grid.current?.focus();
  });
  const count = countOf(edits.staged);
  const save = (): void => {
    if (count > 0 && !saving.save.isPending) saving.save.mutate(edits.staged);
  };
  const editing = useEditing({ table, model, edits, grid, onSave: save });
  const actions = useRowActions(table, model, edits);
  const mayWrite = atLeast(role, 'developer');
  const refusal = refusalOf(table, view, mayWrite);
  const mayInsert = mayWrite && view.as === 'service' && isTable(table);
  const columns = useMemo(
    () => table.columns.map(({ name, type }) => ({ name, type, mark: markOf(table, name) })),
    [table],
  );
  const inserts = edits.staged.inserts.length;
  const onVisible = useCallback(
    (from: number, to: number) => pages.show(Math.max(0, from - inserts), Math.max(0, to - inserts)),
    [pages, inserts],
  );
  const [term] = view.order === primaryOrder(table) ? [] : (termsOf(view.order) ?? []);
  const act = async (work: () => Promise<void> | void): Promise<void> => {
    try {
      await work();
      editing.setFault(null);
    } catch (error) {
      editing.setFault(error);
    }
    grid.current?.focus();
  };
  const insert = (): void => {
    actions.insert();
    grid.current?.select({ row: 0, column: 0 });
  };
  const retry = (): void => {
    editing.setFault(null);
    pages.reload();
  };
  const close = (): void => {
    setDialog(null);
    grid.current?.focus();
  };
  const column = table.columns[range.active.column];
  const error = editing.fault ?? pages.error();
  return (
    <>
      <TableHead
        {...{ table, view, mayInsert }}
        total={pages.isPending() ? null : pages.total()}
        onSet={set}
        onReload={pages.reload}
        onOpen={setDialog}
      />
      <FilterBar table={table} filter={view.filter} onChange={(filter) => set('filter', filter)} />
      {mayInsert && (
        <RowButtons
          mayChange={refusal === null}
          onInsert={() => void act(insert)}
          onDuplicate={() => void act(() => actions.duplicate(range))}
          onDelete={() => void act(() => actions.remove(range))}
          onKeys={() => setDialog('keys')}
        />
      )}
      {error !== null && <Failure error={error} onRetry={retry} />}
      <Grid
        label={`Rows of ${table.name}`}
        handle={grid}
        columns={columns}
        rowCount={model.rowCount}
        rowAt={model.rowAt}
        rowClass={model.rowClass}
        cellClass={model.cellClass}
        onVisible={onVisible}
        onSelect={setRange}
        onSort={(name) => set('order', nextOrder(table, view, name))}
        sorted={term ?? null}
        editing={refusal === null || (mayInsert && inserts > 0) ? editing.gridEditing : undefined}
      />
      <CellBar
        table={table}
        column={column}
        row={model.rowAt(range.active.row)}
        onOpen={() => editing.open(range.active)}
      />
      {count > 0 && <SaveBar table={table} edits={edits} saving={saving} onClosed={() => grid.current?.focus()} />}
      {count === 0 && <SavedNote count={savedCount} />}
      {refusal !== null && <p className="muted">{refusal}</p>}
      {!table.rls.enabled && (
        <p className="muted">Row-level security is off: keys for browsers and users see nothing until it is on.</p>
      )}
      {editing.dialog !== null && (
        <ValueDialog
          {...editing.dialog}
          onSave={refusal === null || model.isNew(range.active.row) ? editing.keep : undefined}
          onClose={editing.cancel}
        />
      )}
      <Dialogs {...{ dialog, table, view }} total={pages.total()} onImported={pages.reload} onClose={close} />
    </>
  );
};
