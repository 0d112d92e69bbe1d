import type { ReactNode } from 'react';

interface TableProps {
  /** The name of the table. It is hidden from view where the heading of the page says the same. */
  readonly caption: string;
  readonly isCaptionHidden?: boolean;
  /** The names of the columns; an empty text for a column without a name. */
  readonly columns: readonly string[];
  /** The rows, as `<tr>`. */
  readonly children: ReactNode;
}

/** A table that scrolls at its side by itself, so that a narrow page does not. */
export const Table = ({ caption, isCaptionHidden = false, columns, children }: TableProps) => (
  // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
  <div className="scroll" role="region" aria-label={caption} tabIndex={0}>
    <table>
      <caption className={isCaptionHidden ? 'unseen' : undefined}>{caption}</caption>
      <thead>
        <tr>{columns.map((column) => (column === '' ? <td key="actions" /> : <th key={column}>{column}</th>))}</tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);
