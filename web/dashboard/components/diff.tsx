import { diffOf, withContext } from '../client/diff.ts';

interface DiffProps {
  readonly label: string;
  readonly before: string;
  readonly after: string;
}

const signs = { same: ' ', removed: '−', added: '+' } as const;

/** Two texts line by line: removed lines are marked by − and added ones by +, not by colour alone. */
export const Diff = ({ label, before, after }: DiffProps) => {
  const lines = withContext(diffOf(before, after));
  if (lines.every((line) => line === null)) return <p className="muted">The two are the same.</p>;
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
    <div className="diff" role="region" aria-label={label} tabIndex={0}>
      {lines.map((line, place) =>
        line === null ? (
          // oxlint-disable-next-line react/no-array-index-key -- a comparison is made anew as a whole
          <p key={place} className="left-out">
            ⋯
          </p>
        ) : (
          // oxlint-disable-next-line react/no-array-index-key -- a comparison is made anew as a whole
          <p key={place} className={line.kind}>
            <span className="numbers" aria-hidden="true">
              {String(line.before ?? '').padStart(4)} {String(line.after ?? '').padStart(4)}
            </span>
            {signs[line.kind]} {line.text}
          </p>
        ),
      )}
    </div>
  );
};
