import {
  type ClipboardEvent,
  type KeyboardEvent,
  type MouseEvent,
  type ReactNode,
  type Ref,
  type UIEvent,
  memo,
  useEffect,
  useImperativeHandle,
  useRef,
  useState,
} from 'react';
import { parseDelimited, tabbed } from '../client/delimited.ts';
import { textOf } from '../client/exact-json.ts';
import { LongValue, type Row } from '../client/values.ts';

interface GridColumn {
  readonly name: string;
  readonly type: string;
  /** A word about it, in its head: a key. */
  readonly mark?: string | undefined;
}

export interface Cell {
  readonly row: number;
  readonly column: number;
}

/** The cells between two corners, both included. */
export interface CellRange {
  readonly from: Cell;
  readonly to: Cell;
  readonly active: Cell;
}

/** Cells of the clipboard. Null stands for NULL, which only this page writes. */
export type Pasted = readonly (readonly (string | null)[])[];

/** The callbacks of a grid whose cells can be edited. */
export interface GridEditing {
  /** An editor in place of the cell, while there is one. */
  readonly editor: { readonly cell: Cell; readonly element: ReactNode } | null;
  /** The user begins to edit; `typed` replaces what is there. */
  readonly onEdit: (cell: Cell, typed?: string) => void;
  readonly onPaste: (range: CellRange, cells: Pasted) => void;
  /** Keys that the grid does not know. @returns whether it was one of them */
  readonly onKey: (event: KeyboardEvent, range: CellRange) => boolean;
}

interface GridProps {
  readonly label: string;
  readonly columns: readonly GridColumn[];
  readonly rowCount: number;
  /** Undefined: it is not loaded yet. */
  readonly rowAt: (row: number) => Row | undefined;
  /** These rows are in sight. */
  readonly onVisible?: ((from: number, to: number) => void) | undefined;
  readonly onSort?: ((column: string) => void) | undefined;
  readonly sorted?: { readonly column: string; readonly isDescending: boolean } | null;
  readonly onSelect?: ((range: CellRange) => void) | undefined;
  /** Classes of a row and of a cell, for what is not saved yet. */
  readonly rowClass?: ((row: number) => string) | undefined;
  readonly cellClass?: ((row: number, column: string) => string) | undefined;
  /** Without it the grid is read-only. */
  readonly editing?: GridEditing | undefined;
  readonly handle?: Ref<GridHandle> | undefined;
}

/** Lets a page move the focus and the selection of its grid. */
export interface GridHandle {
  readonly focus: () => void;
  /** Selects the cell that is so far from the active one. */
  readonly move: (rows: number, columns: number) => void;
  readonly select: (cell: Cell) => void;
}

const rowHeight = 30;
const columnWidth = 180;
const overscan = 4;
/** Elements are at most 33 million px high in Chromium, and 17 in Firefox: above it the scroll bar is scaled. */
const maxHeight = 15_000_000;
const pageRows = 20;
/** The grid is at least so high. */
const minRows = 5;
/** A copy of more cells would hold up the page. */
const maxCopied = 200_000;
const cellsType = 'application/x-plinth-cells';

/** A value as a cell shows it; one of megabytes would hold up the page. */
const maxShown = 300;

/** A value that a new row does not have: it gets the default of its column. */
export const byDefault = Symbol('default');

const kindOf = (value: unknown): string => {
  if (value === null) return 'null';
  if (value === byDefault) return 'default';
  return value === '' ? 'blank' : '';
};

const shownValue = (value: unknown): string => {
  if (value === null) return 'NULL';
  if (value === byDefault) return 'DEFAULT';
  if (value === undefined) return '';
  if (value === '') return 'empty';
  const text = value instanceof LongValue ? value.start : textOf(value);
  return text.length > maxShown || value instanceof LongValue ? `${text.slice(0, maxShown)}…` : text;
};

interface Range {
  readonly from: number;
  readonly to: number;
}

const rangeOf = (start: number, size: number, step: number, count: number): Range => ({
  from: Math.max(0, Math.floor(start / step) - overscan),
  to: Math.min(count, Math.ceil((start + size) / step) + overscan),
});

const moves: Readonly<Record<string, readonly [rows: number, columns: number]>> = {
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  PageDown: [pageRows, 0],
  PageUp: [-pageRows, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

const clamp = (value: number, max: number): number => Math.max(0, Math.min(max, value));

const between = (anchor: Cell, active: Cell): CellRange => ({
  from: { row: Math.min(anchor.row, active.row), column: Math.min(anchor.column, active.column) },
  to: { row: Math.max(anchor.row, active.row), column: Math.max(anchor.column, active.column) },
  active,
});

const cellId = ({ row, column }: Cell): string => `cell-${row}-${column}`;

interface LineProps {
  readonly row: number;
  readonly values: Row | undefined;
  readonly columns: readonly GridColumn[];
  /** The columns in sight. Numbers, and not objects: a line is compared with what it was. */
  readonly from: number;
  readonly to: number;
  readonly top: number;
  /** Columns of this row that are selected, both included; -1: none. */
  readonly selectedFrom: number;
  readonly selectedTo: number;
  readonly active: number | null;
  readonly className: string;
  readonly cellClass: GridProps['cellClass'];
  /** The column whose cell is edited; -1: none. */
  readonly edited: number;
  readonly editor: ReactNode;
}

const cellClasses = (value: unknown, isSelected: boolean, more: string): string =>
  [kindOf(value), isSelected ? 'selected' : '', more].filter((name) => name !== '').join(' ');

/** One row. It is drawn again only when something of it has changed: scrolling draws the rows that come in. */
const Line = memo(({ row, values, columns, top, active, className, cellClass, ...line }: LineProps) => (
  <div
    role="row"
    aria-rowindex={row + 2}
    className={`grid-row ${className}`}
    style={{ transform: `translateY(${top}px)` }}
  >
    {columns.slice(line.from, line.to).map(({ name }, index) => {
      const column = line.from + index;
      const value = values?.[name];
      const isSelected = column >= line.selectedFrom && column <= line.selectedTo;
      const classes = cellClasses(value, isSelected, cellClass?.(row, name) ?? '');
      return (
        <div
          key={name}
          id={cellId({ row, column })}
          role="gridcell"
          data-row={row}
          data-column={column}
          aria-colindex={column + 1}
          aria-selected={isSelected || active === column}
          className={active === column ? `${classes} active` : classes || undefined}
          style={{ transform: `translateX(${column * columnWidth}px)` }}
        >
          {line.edited === column ? line.editor : values === undefined ? '…' : shownValue(value)}
        </div>
      );
    })}
  </div>
));

/** The cell that an event came from. */
const cellOf = (event: MouseEvent): Cell | null => {
  const found = (event.target as Element).closest<HTMLElement>('[data-row]');
  return found === null ? null : { row: Number(found.dataset['row']), column: Number(found.dataset['column']) };
};

const isPrintable = ({ key, ctrlKey, metaKey, altKey, nativeEvent }: KeyboardEvent): boolean =>
  Array.from(key).length === 1 && !ctrlKey && !metaKey && !altKey && !nativeEvent.isComposing;

const copiedText = (value: unknown): string | null => {
  if (value === null || value === byDefault || value === undefined) return null;
  return value instanceof LongValue ? value.start : textOf(value);
};

const Head = ({
  columns,
  shown,
  onSort,
  sorted,
}: Pick<GridProps, 'columns' | 'onSort' | 'sorted'> & { shown: Range }) => (
  <div className="grid-head" role="row" aria-rowindex={1} style={{ width: columns.length * columnWidth }}>
    {columns.slice(shown.from, shown.to).map(({ name, type, mark }, index) => {
      const text = (
        <>
          {name} <small>{mark === undefined ? type : `${type} · ${mark}`}</small>
        </>
      );
      return (
        <div
          key={name}
          role="columnheader"
          title={`${name} ${type}`}
          aria-colindex={shown.from + index + 1}
          aria-sort={sorted?.column === name ? (sorted.isDescending ? 'descending' : 'ascending') : 'none'}
          style={{ transform: `translateX(${(shown.from + index) * columnWidth}px)` }}
        >
          {onSort ? (
            <button type="button" tabIndex={-1} onClick={() => onSort(name)}>
              {text}
            </button>
          ) : (
            <span>{text}</span>
          )}
        </div>
      );
    })}
  </div>
);

/** The part of the grid that is in sight, in px. */
const usePlace = () => {
  const view = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState({ top: 0, left: 0, height: 600, width: 1000 });
  useEffect(() => {
    const element = view.current;
    if (element === null) return undefined;
    const measure = (): void =>
      setPlace((known) => ({ ...known, height: element.clientHeight - rowHeight, width: element.clientWidth }));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const onScroll = ({ currentTarget: { scrollTop: top, scrollLeft: left } }: UIEvent<HTMLDivElement>): void =>
    setPlace((known) => ({ ...known, top, left }));
  return { view, place, onScroll };
};

/** Where a key leads from the active cell; null: it is no move. */
const moved = (event: KeyboardEvent, active: Cell, rowCount: number, columnCount: number): Cell | null => {
  const move = moves[event.key];
  if (move === undefined || event.altKey) return null;
  const isFar = event.ctrlKey || event.metaKey;
  const [down = 0, right = 0] = isFar ? move.map((by) => by * Infinity || 0) : move;
  return {
    row: clamp(active.row + down, Math.max(0, rowCount - 1)),
    column: clamp(active.column + right, Math.max(0, columnCount - 1)),
  };
};

const pastedOf = (data: DataTransfer): Pasted => {
  const own = data.getData(cellsType);
  if (own !== '') return JSON.parse(own) as Pasted;
  return parseDelimited(data.getData('text/plain'), '\t').map((row) => row.map(({ text }) => text));
};

/** The clipboard of a grid: a range goes out as a spreadsheet reads it, and one of a spreadsheet comes in. */
const useClipboard = ({ columns, rowAt, editing }: GridProps, range: CellRange) => ({
  onCopy: (event: ClipboardEvent): void => {
    if (event.target !== event.currentTarget) return;
    const { from, to } = range;
    if ((to.row - from.row + 1) * (to.column - from.column + 1) > maxCopied) return;
    const names = columns.slice(from.column, to.column + 1).map(({ name }) => name);
    const cells = Array.from({ length: to.row - from.row + 1 }, (_, index) => {
      const row = rowAt(from.row + index);
      return names.map((name) => copiedText(row?.[name]));
    });
    event.preventDefault();
    event.clipboardData.setData('text/plain', tabbed(cells.map((row) => row.map((text) => text ?? ''))));
    event.clipboardData.setData(cellsType, JSON.stringify(cells));
  },
  onPaste: (event: ClipboardEvent): void => {
    if (event.target !== event.currentTarget || editing === undefined) return;
    event.preventDefault();
    editing.onPaste(range, pastedOf(event.clipboardData));
  },
});

/**
 * Rows and columns of any number, of which only those in sight are elements: 900 at most, whatever the table holds. Rows
 * are of one height, so that their places are divisions. Moved through by the keyboard; the active cell is announced.
 */
export const Grid = (props: GridProps) => {
  const { label, columns, rowCount, rowAt, onVisible, onSelect, rowClass, cellClass, editing } = props;
  const { view, place, onScroll } = usePlace();
  const [selection, setSelection] = useState({ anchor: { row: 0, column: 0 }, active: { row: 0, column: 0 } });
  const { active, anchor } = selection;
  const range = between(anchor, active);
  const whole = rowCount * rowHeight;
  const height = Math.min(whole, maxHeight);
  // How many px of rows one px of the scroll bar stands for.
  const scale = whole > place.height ? (whole - place.height) / Math.max(1, height - place.height) : 1;
  const rowTop = place.top * scale;
  const rows = rangeOf(rowTop, place.height, rowHeight, rowCount);
  const shown = rangeOf(place.left, place.width, columnWidth, columns.length);
  useEffect(() => onVisible?.(rows.from, rows.to), [onVisible, rows.from, rows.to]);

  const show = ({ row, column }: Cell): void => {
    const element = view.current;
    if (element === null) return;
    const at = row * rowHeight;
    if (at < rowTop) element.scrollTop = at / scale;
    else if (at + rowHeight > rowTop + place.height) element.scrollTop = (at + rowHeight - place.height) / scale;
    const x = column * columnWidth;
    if (x < place.left) element.scrollLeft = x;
    else if (x + columnWidth > place.left + place.width) element.scrollLeft = x + columnWidth - place.width;
  };
  const select = (next: Cell, isExtended: boolean): void => {
    const from = isExtended ? anchor : next;
    setSelection({ anchor: from, active: next });
    onSelect?.(between(from, next));
  };
  const go = (next: Cell, isExtended = false): void => {
    select(next, isExtended);
    show(next);
  };
  useImperativeHandle(props.handle, () => ({
    focus: () => view.current?.focus({ preventScroll: true }),
    move: (down, right) =>
      go({
        row: clamp(active.row + down, Math.max(0, rowCount - 1)),
        column: clamp(active.column + right, Math.max(0, columns.length - 1)),
      }),
    select: (cell) => go(cell),
  }));
  const press = (event: KeyboardEvent): void => {
    // Keys of an editor within the grid are its own.
    if (event.target !== event.currentTarget) return;
    if (editing?.onKey(event, range) === true) return event.preventDefault();
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (isPlain && (event.key === 'Enter' || event.key === 'F2')) {
      event.preventDefault();
      return editing?.onEdit(active);
    }
    const next = moved(event, active, rowCount, columns.length);
    if (next !== null) {
      event.preventDefault();
      go(next, event.shiftKey);
    } else if (editing !== undefined && rowCount > 0 && isPrintable(event)) {
      event.preventDefault();
      editing.onEdit(active, event.key);
    }
    return undefined;
  };
  const point = (event: MouseEvent): void => {
    const cell = cellOf(event);
    if (cell === null || event.button !== 0 || (event.target as Element).closest('[role=gridcell] *')) return;
    select(cell, event.shiftKey);
    view.current?.focus({ preventScroll: true });
  };
  const drag = (event: MouseEvent): void => {
    const cell = event.buttons === 1 ? cellOf(event) : null;
    if (cell !== null && (cell.row !== active.row || cell.column !== active.column)) select(cell, true);
  };
  const numbers = Array.from({ length: Math.max(0, rows.to - rows.from) }, (_, index) => rows.from + index);
  const editor = editing?.editor ?? null;
  return (
    <div
      ref={view}
      className="grid"
      role="grid"
      tabIndex={0}
      // A few rows need no grid of half a page.
      style={{ height: `min(62vh, ${(Math.max(rowCount, minRows) + 1) * rowHeight + 20}px)` }}
      aria-label={label}
      aria-rowcount={rowCount + 1}
      aria-colcount={columns.length}
      aria-multiselectable="true"
      aria-readonly={editing === undefined}
      aria-activedescendant={rowCount > 0 ? cellId(active) : undefined}
      onScroll={onScroll}
      onKeyDown={press}
      onMouseDown={point}
      onMouseMove={drag}
      onDoubleClick={(event) => {
        const cell = cellOf(event);
        if (cell !== null && !(event.target as Element).closest('[role=gridcell] *')) editing?.onEdit(cell);
      }}
      {...useClipboard(props, range)}
    >
      <Head columns={columns} shown={shown} onSort={props.onSort} sorted={props.sorted ?? null} />
      <div className="grid-body" role="rowgroup" style={{ height, width: columns.length * columnWidth }}>
        {numbers.map((row) => {
          const isSelected = row >= range.from.row && row <= range.to.row;
          const isEdited = editor?.cell.row === row;
          return (
            <Line
              key={row}
              row={row}
              values={rowAt(row)}
              columns={columns}
              from={shown.from}
              to={shown.to}
              top={scale === 1 ? row * rowHeight : row * rowHeight - rowTop + place.top}
              selectedFrom={isSelected ? range.from.column : -1}
              selectedTo={isSelected ? range.to.column : -1}
              active={active.row === row ? active.column : null}
              className={rowClass?.(row) ?? ''}
              cellClass={cellClass}
              edited={isEdited ? editor.cell.column : -1}
              editor={isEdited ? editor.element : null}
            />
          );
        })}
      </div>
    </div>
  );
};
