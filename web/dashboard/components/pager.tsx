interface PagerProps {
  /** The name of the list, for screen readers. */
  readonly label: string;
  readonly offset: number;
  readonly limit: number;
  readonly total: number;
  /** The rows of this page, where it may have fewer than `limit` with others behind it. */
  readonly shown?: number;
  /** False: there are more than `total`. */
  readonly isExact?: boolean;
  /** Whether a list of one page shows its number of rows, too. */
  readonly isAlwaysShown?: boolean;
  readonly onMove: (offset: number) => void;
}

/** Where a list stands, and the way to its other pages. Nothing is shown for a list of one page, unless asked for. */
export const Pager = (props: PagerProps) => {
  const { label, offset, total, shown = 0, isExact = true, isAlwaysShown = false, onMove } = props;
  const limit = shown > 0 && offset + shown < total ? shown : props.limit;
  if (!isAlwaysShown && total <= limit && offset === 0) return null;
  return (
    <nav className="row pager" aria-label={`Pages of ${label}`}>
      <button type="button" disabled={offset === 0} onClick={() => onMove(Math.max(0, offset - limit))}>
        Previous
      </button>
      <span className="muted">
        {total === 0 ? 0 : offset + 1}–{Math.min(total, offset + limit)} of {!isExact && 'more than '}
        {total.toLocaleString('en')}
      </span>
      <button type="button" disabled={offset + limit >= total} onClick={() => onMove(offset + limit)}>
        Next
      </button>
    </nav>
  );
};
