import { textOf } from '../client/exact-json.ts';
import { type KeyboardEvent, type UIEvent, useEffect, useRef, useState } from 'react';

interface GridColumn {
  readonly name: string;
  readonly type: string;
}

export interface Cell {
  readonly row: number;
  readonly column: number;
}

interface GridProps {
  readonly label: string;
  readonly columns: readonly GridColumn[];
  readonly rowCount: number;
  /** Undefined: it is not loaded yet. */
  readonly rowAt: (row: number) => Readonly<Record<string, unknown>> | undefined;
  /** These rows are in sight. */
  readonly onVisible?: (from: number, to: number) => void;
  /** Called when the user starts to edit a cell. Without it the grid is read-only. */
  readonly onEdit?: (cell: Cell) => void;
  readonly onSort?: (column: string) => void;
  readonly sorted?: { readonly column: string; readonly isDescending: boolean } | null;
}

const rowHeight = 30;
const columnWidth = 180;
const overscan = 6;
/** Elements are at most 33 million px high in Chromium, and 17 in Firefox: above it the scroll bar is scaled. */
const maxHeight = 15_000_000;
const pageRows = 20;

/** A value as a cell shows it; one of megabytes would hold up the page. */
const maxShown = 300;
const shownValue = (value: unknown): string => {
  if (value === null || value === undefined) return 'NULL';
  const text = textOf(value);
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
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

/**
 * Rows and columns of any number, of which only those in sight are elements: 800 at most, whatever the table holds. Rows
 * are of one height, so that their places are divisions. Moved through by the keyboard; the active cell is announced.
 */
export const Grid = ({ label, columns, rowCount, rowAt, onVisible, onEdit, onSort, sorted }: GridProps) => {
  const view = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState({ top: 0, left: 0, height: 600, width: 1000 });
  const [active, setActive] = useState<Cell>({ row: 0, column: 0 });
  const whole = rowCount * rowHeight;
  const height = Math.min(whole, maxHeight);
  // How many px of rows one px of the scroll bar stands for.
  const scale = whole > place.height ? (whole - place.height) / Math.max(1, height - place.height) : 1;
  const rowTop = place.top * scale;
  const rows = rangeOf(rowTop, place.height, rowHeight, rowCount);
  const shown = rangeOf(place.left, place.width, columnWidth, columns.length);

  useEffect(() => {
    const element = view.current;
    if (element === null) return undefined;
    const measure = (): void =>
      setPlace((known) => ({ ...known, height: element.clientHeight - rowHeight, width: element.clientWidth }));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => onVisible?.(rows.from, rows.to), [onVisible, rows.from, rows.to]);

  const scroll = ({ currentTarget: { scrollTop: top, scrollLeft: left } }: UIEvent<HTMLDivElement>): void =>
    setPlace((known) => ({ ...known, top, left }));
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
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' || event.key === 'F2') {
      event.preventDefault();
      onEdit?.(active);
      return;
    }
    const move = moves[event.key];
    if (move === undefined || event.altKey) return;
    event.preventDefault();
    const isFar = event.ctrlKey || event.metaKey;
    const [down, right] = isFar ? move.map((by) => by * Infinity || 0) : move;
    const next = {
      row: clamp(active.row + (down ?? 0), Math.max(0, rowCount - 1)),
      column: clamp(active.column + (right ?? 0), Math.max(0, columns.length - 1)),
    };
    setActive(next);
    show(next);
  };

  const visible = columns.slice(shown.from, shown.to);
  const numbers = Array.from({ length: Math.max(0, rows.to - rows.from) }, (_, index) => rows.from + index);
  const cellId = ({ row, column }: Cell): string => `cell-${row}-${column}`;
  return (
    <div
      ref={view}
      className="grid"
      role="grid"
      tabIndex={0}
      aria-label={label}
      aria-rowcount={rowCount + 1}
      aria-colcount={columns.length}
      aria-activedescendant={rowCount > 0 ? cellId(active) : undefined}
      onScroll={scroll}
      onKeyDown={press}
    >
      <div className="grid-head" role="row" aria-rowindex={1} style={{ width: columns.length * columnWidth }}>
        {visible.map(({ name, type }, index) => (
          <div
            key={name}
            role="columnheader"
            aria-colindex={shown.from + index + 1}
            aria-sort={sorted?.column === name ? (sorted.isDescending ? 'descending' : 'ascending') : 'none'}
            style={{ transform: `translateX(${(shown.from + index) * columnWidth}px)` }}
          >
            {onSort ? (
              <button type="button" tabIndex={-1} onClick={() => onSort(name)}>
                {name} <small>{type}</small>
              </button>
            ) : (
              <span>
                {name} <small>{type}</small>
              </span>
            )}
          </div>
        ))}
      </div>
      <div className="grid-body" role="rowgroup" style={{ height, width: columns.length * columnWidth }}>
        {numbers.map((row) => {
          const values = rowAt(row);
          return (
            <div
              key={row}
              role="row"
              aria-rowindex={row + 2}
              className="grid-row"
              style={{ transform: `translateY(${row * rowHeight - rowTop + place.top}px)` }}
            >
              {visible.map(({ name }, index) => {
                const column = shown.from + index;
                const value = values?.[name];
                const isActive = active.row === row && active.column === column;
                return (
                  // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the grid takes the keys
                  <div
                    key={name}
                    id={cellId({ row, column })}
                    role="gridcell"
                    aria-colindex={column + 1}
                    aria-selected={isActive}
                    className={value === null ? 'null' : undefined}
                    style={{ transform: `translateX(${column * columnWidth}px)` }}
                    onClick={() => setActive({ row, column })}
                    onDoubleClick={() => onEdit?.({ row, column })}
                  >
                    {values === undefined ? '…' : shownValue(value)}
                  </div>
                );
              })}
            </div>
          );
        })}
      </div>
    </div>
  );
};
