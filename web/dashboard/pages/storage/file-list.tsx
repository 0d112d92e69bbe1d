import { type KeyboardEvent, useEffect, useState } from 'react';
import { useVirtualRows } from '../../components/virtual-rows.ts';
import type { Entry } from './folder-pages.ts';
import { shownName, sizeText } from './paths.ts';

interface FileListProps {
  readonly label: string;
  readonly count: number;
  /** Undefined: it is not loaded yet. */
  readonly entryAt: (row: number) => Entry | undefined;
  readonly onVisible: (from: number, to: number) => void;
  readonly onOpen: (entry: Entry) => void;
  readonly opened: string | null;
  readonly sorted: { readonly column: 'name' | 'updated_at'; readonly order: 'asc' | 'desc' };
  readonly onSort: (column: 'name' | 'updated_at') => void;
  /** Null: nothing can be chosen, since nothing may be done with it. */
  readonly choice: {
    readonly has: (entry: Entry) => boolean;
    readonly toggle: (entry: Entry) => void;
    readonly remove: () => void;
  } | null;
}

const rowHeight = 34;
const pageRows = 20;

const moves: Readonly<Record<string, number>> = {
  ArrowDown: 1,
  ArrowUp: -1,
  PageDown: pageRows,
  PageUp: -pageRows,
  Home: -Infinity,
  End: Infinity,
};

const timeText = (at: string | null): string => (at === null ? '' : new Date(at).toLocaleString());

interface RowProps {
  readonly entry: Entry | undefined;
  readonly row: number;
  readonly top: number;
  readonly isActive: boolean;
  readonly list: FileListProps;
}

const FileRow = ({ entry, row, top, isActive, list: { choice, onOpen, opened } }: RowProps) => (
  // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the list takes the keys
  <div
    role="row"
    id={`file-${row}`}
    aria-rowindex={row + 2}
    aria-selected={entry !== undefined && (choice?.has(entry) === true || opened === entry.name)}
    className={`file-row${isActive ? ' active' : ''}`}
    style={{ transform: `translateY(${top}px)` }}
    onClick={() => entry && onOpen(entry)}
  >
    {choice && (
      <div role="gridcell">
        <input
          type="checkbox"
          tabIndex={-1}
          aria-label={`Choose ${entry?.label ?? 'the line'}`}
          checked={entry !== undefined && choice.has(entry)}
          onClick={(event) => event.stopPropagation()}
          onChange={() => entry && choice.toggle(entry)}
        />
      </div>
    )}
    <div role="gridcell" className="file-name">
      {entry === undefined ? (
        '…'
      ) : (
        <>
          <svg aria-hidden="true" viewBox="0 0 16 16" width="14" height="14" className="file-icon">
            <path d={entry.isFolder ? 'M1 3h5l1.5 2H15v9H1z' : 'M3 1h6l4 4v10H3z'} />
          </svg>
          <bdi>{shownName(entry.label)}</bdi>
          {entry.isFolder && <span className="unseen">, folder</span>}
        </>
      )}
    </div>
    <div role="gridcell" className="file-size">
      {entry === undefined || entry.isFolder ? '' : sizeText(entry.size)}
    </div>
    <div role="gridcell" className="file-type">
      {entry?.type ?? ''}
    </div>
    <div role="gridcell" className="file-time">
      {timeText(entry?.changedAt ?? null)}
    </div>
  </div>
);

/** The lines of a folder of any length; some forty of them are elements. Moved through by the keyboard. */
export const FileList = (props: FileListProps) => {
  const { label, count, entryAt, onVisible, onOpen, choice, sorted, onSort } = props;
  const [wanted, setActive] = useState(0);
  const active = Math.min(wanted, Math.max(0, count - 1));
  const { view, onScroll, height, from, to, topOf, show } = useVirtualRows(count, rowHeight);
  useEffect(() => onVisible(from, to), [onVisible, from, to]);
  const press = (event: KeyboardEvent): void => {
    const entry = entryAt(active);
    const move = moves[event.key];
    if (move !== undefined) {
      const next = Math.max(0, Math.min(count - 1, active + move));
      setActive(next);
      show(next);
    } else if (event.key === 'Enter' && entry) onOpen(entry);
    else if (event.key === ' ' && entry) choice?.toggle(entry);
    else if (event.key === 'Delete') choice?.remove();
    else return;
    event.preventDefault();
  };
  const rows = Array.from({ length: Math.max(0, to - from) }, (_, place) => from + place);
  const ariaSort = (column: string) =>
    sorted.column === column ? (sorted.order === 'asc' ? 'ascending' : 'descending') : 'none';
  return (
    <div
      ref={view}
      className={choice ? 'files choosable' : 'files'}
      role="grid"
      tabIndex={0}
      aria-label={label}
      aria-rowcount={count + 1}
      aria-multiselectable={choice !== null}
      aria-activedescendant={count > 0 ? `file-${active}` : undefined}
      onScroll={onScroll}
      onKeyDown={press}
    >
      <div className="files-head" role="row" aria-rowindex={1}>
        {choice && (
          <div role="columnheader">
            <span className="unseen">Chosen</span>
          </div>
        )}
        <div role="columnheader" aria-sort={ariaSort('name')}>
          <button type="button" onClick={() => onSort('name')}>
            Name
          </button>
        </div>
        <div role="columnheader" className="file-size">
          Size
        </div>
        <div role="columnheader" className="file-type">
          Type
        </div>
        <div role="columnheader" className="file-time" aria-sort={ariaSort('updated_at')}>
          <button type="button" onClick={() => onSort('updated_at')}>
            Changed
          </button>
        </div>
      </div>
      <div role="rowgroup" className="files-body" style={{ height }}>
        {rows.map((row) => (
          <FileRow key={row} row={row} entry={entryAt(row)} top={topOf(row)} isActive={row === active} list={props} />
        ))}
      </div>
    </div>
  );
};
