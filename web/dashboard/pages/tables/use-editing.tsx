import { type KeyboardEvent, type RefObject, useState } from 'react';
import { textOf } from '../../client/exact-json.ts';
import { useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import type { Staged } from '../../client/staged.ts';
import { type Column, LongValue, type Row, hasDefault, isGenerated, isJson, valueOfText } from '../../client/values.ts';
import {
  type Cell,
  type CellRange,
  type GridEditing,
  type GridHandle,
  type Pasted,
  byDefault,
} from '../../components/grid.tsx';
import { type After, CellChoice, CellInput } from './cell-input.tsx';
import { readRow } from './use-rows.ts';
import type { StagedChanges } from './use-staged.ts';
import { type TableModel, insertBelow } from './use-table.ts';

interface Editing {
  readonly cell: Cell;
  readonly kind: 'text' | 'choice' | 'dialog';
  readonly text: string;
  /** The value when editing began: what is not changed is not staged. */
  readonly value: unknown;
}

/** One request saves so many rows; more of them are imported. */
export const maxRows = 1000;

interface EditingOf {
  readonly table: SchemaTable;
  readonly model: TableModel;
  readonly edits: StagedChanges;
  readonly grid: RefObject<GridHandle | null>;
  readonly onSave: () => void;
}

const choicesOf = ({ type, enum_values: labels, nullable }: Column, isDefault: boolean) => {
  if (labels === null && type !== 'boolean') return null;
  const values = labels ?? [true, false];
  return [
    ...values.map((value) => ({ label: String(value), value: value as unknown })),
    ...(nullable ? [{ label: 'NULL', value: null }] : []),
    ...(isDefault ? [{ label: 'DEFAULT', value: undefined }] : []),
  ];
};

const steps: Readonly<Record<After, readonly [number, number]>> = {
  down: [1, 0],
  right: [0, 1],
  left: [0, -1],
  stay: [0, 0],
};

/** Turns the cells of a clipboard into changes; one cell fills the whole range. */
const spread = ({ from, to }: CellRange, cells: Pasted): { rows: Pasted; width: number } => {
  const isOne = cells.length === 1 && cells[0]?.length === 1;
  if (!isOne) return { rows: cells, width: Math.max(0, ...cells.map(({ length }) => length)) };
  const [value = null] = cells[0] ?? [];
  const width = to.column - from.column + 1;
  return { rows: Array.from({ length: to.row - from.row + 1 }, () => Array<string | null>(width).fill(value)), width };
};

const kindFor = (column: Column, value: unknown, typed: string | undefined): Editing['kind'] => {
  if (choicesOf(column, false) !== null) return 'choice';
  if (isJson(column.type) || value instanceof LongValue) return 'dialog';
  return typed === undefined && typeof value === 'string' && value.includes('\n') ? 'dialog' : 'text';
};

const textFor = (value: unknown): string =>
  value === null || value === undefined || value === byDefault || value instanceof LongValue ? '' : textOf(value);

/** Puts the cells of a clipboard into rows of the table, and into new rows below its last one. */
const pasteInto = (
  { table, model, edits }: EditingOf,
  range: CellRange,
  pasted: Pasted,
): { readonly staged: Staged; readonly count: number } => {
  const { rows, width } = spread(range, pasted);
  const columns = table.columns.slice(range.from.column, range.from.column + width);
  const valuesOf = (cells: readonly (string | null)[]): Row =>
    Object.fromEntries(
      columns
        .map((column, index) => [column, cells[index]] as const)
        .filter(([column, text]) => text !== undefined && !isGenerated(column))
        .map(([column, text]) => [column.name, text === null ? null : valueOfText(text ?? '', column)]),
    );
  let { staged } = edits;
  const below: Row[] = [];
  rows.forEach((cells, index) => {
    const row = range.from.row + index;
    if (row < model.rowCount) staged = model.assign(staged, row, valuesOf(cells));
    else below.push(valuesOf(cells));
  });
  return { staged: below.length === 0 ? staged : insertBelow(staged, below.toReversed()), count: rows.length };
};

/** The editor of a table's cells: what keys, the mouse and the clipboard do. */
export const useEditing = (of: EditingOf) => {
  const { table, model, edits, grid, onSave } = of;
  const { project } = useProject();
  const [editing, setEditing] = useState<Editing | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const attempt = async (work: () => Promise<void> | void): Promise<void> => {
    try {
      await work();
      setFault(null);
    } catch (error) {
      setFault(error);
    }
  };
  const columnOf = (cell: Cell): Column | undefined => table.columns[cell.column];
  const assign = ({ row, column }: Cell, value: unknown): void => {
    const name = table.columns[column]?.name;
    if (name !== undefined) edits.change(model.assign(edits.staged, row, { [name]: value }));
  };
  const leave = (after: After = 'stay'): void => {
    setEditing(null);
    const [rows, columns] = steps[after];
    if (after !== 'stay') grid.current?.move(rows, columns);
    grid.current?.focus();
  };
  const begin = (cell: Cell, typed?: string, isWhole = false): void => {
    const [column, row] = [columnOf(cell), model.rowAt(cell.row)];
    if (column === undefined || row === undefined) return;
    if (!isWhole && (isGenerated(column) || model.isRemoved(cell.row))) return;
    const value = row[column.name];
    const kind = isWhole ? 'dialog' : kindFor(column, value, typed);
    void attempt(async () => {
      const stored = model.storedAt(cell.row);
      const isShort = !(value instanceof LongValue) || stored === undefined;
      const key = Object.fromEntries(table.primary_key.map((name) => [name, stored?.[name]]));
      const whole = isShort ? value : (await readRow(project.id, table.name, key, [column.name]))?.[column.name];
      setEditing({ cell, kind, text: typed ?? textFor(whole), value: whole });
    });
  };
  const commit = (after: After): void => {
    const column = editing === null ? undefined : columnOf(editing.cell);
    if (editing === null || column === undefined) return;
    const { text, value, cell } = editing;
    if (text === textFor(value)) return leave(after);
    void attempt(() => {
      assign(cell, valueOfText(text, column));
      leave(after);
    });
  };
  const setNull = ({ from, to }: CellRange): void => {
    let { staged } = edits;
    const names = table.columns
      .slice(from.column, to.column + 1)
      .filter((column) => column.nullable && !isGenerated(column));
    for (let row = from.row; row <= Math.min(to.row, from.row + maxRows - 1); row += 1)
      staged = model.assign(staged, row, Object.fromEntries(names.map(({ name }) => [name, null])));
    edits.change(staged);
  };
  const commands: Readonly<Record<string, (range: CellRange, isShift: boolean) => void>> = {
    z: (_range, isShift) => (isShift ? edits.redo() : edits.undo()),
    y: () => edits.redo(),
    s: onSave,
    backspace: setNull,
  };
  const onKey = (event: KeyboardEvent, range: CellRange): boolean => {
    if ((!event.ctrlKey && !event.metaKey) || event.altKey) return false;
    const command = commands[event.key.toLowerCase()];
    command?.(range, event.shiftKey);
    return command !== undefined;
  };
  const onPaste = (range: CellRange, cells: Pasted): void =>
    void attempt(async () => {
      if (cells.length > maxRows)
        throw new Error(`At most ${maxRows} rows can be pasted. Import larger ones as a file.`);
      await model.load(range.from.row, range.from.row + cells.length);
      edits.change(pasteInto(of, range, cells).staged);
    });
  const column = editing === null ? undefined : columnOf(editing.cell);
  const choices = column && choicesOf(column, model.isNew(editing?.cell.row ?? -1) && hasDefault(column));
  const element =
    editing === null || column === undefined || editing.kind === 'dialog' ? null : editing.kind === 'choice' ? (
      <CellChoice
        label={column.name}
        choices={choices ?? []}
        value={editing.value}
        onChoose={(value) => {
          assign(editing.cell, value);
          leave();
        }}
        onCancel={() => leave()}
      />
    ) : (
      <CellInput
        label={column.name}
        text={editing.text}
        onChange={(text) => setEditing({ ...editing, text })}
        onCommit={commit}
        onCancel={() => leave()}
      />
    );
  const gridEditing: GridEditing = {
    editor: editing === null || element === null ? null : { cell: editing.cell, element },
    onEdit: begin,
    onPaste,
    onKey,
  };
  return {
    gridEditing,
    fault,
    setFault,
    /** Shows the whole value of a cell; it can be changed there where the cell can. */
    open: (cell: Cell): void => begin(cell, undefined, true),
    dialog: editing?.kind === 'dialog' && column !== undefined ? { column, value: editing.value } : null,
    keep: (value: unknown): void => {
      if (editing !== null && value !== editing.value) assign(editing.cell, value);
      leave();
    },
    cancel: () => leave(),
  };
};
