export interface LogLine {
  readonly ts: string;
  readonly level: string;
  readonly message: string;
  readonly fields?: Readonly<Record<string, unknown>> | null | undefined;
}

const timeOf = (ts: string): string => new Date(ts).toLocaleTimeString([], { hour12: false });

/** Lines of a log, the newest last. */
export const LogLines = ({ label, lines }: { readonly label: string; readonly lines: readonly LogLine[] }) => (
  <div role="log" aria-label={label} className="log" tabIndex={0}>
    {lines.map((line, place) => (
      // oxlint-disable-next-line react/no-array-index-key -- lines are only added at the end
      <p key={place} className={line.level}>
        <time dateTime={line.ts}>{timeOf(line.ts)}</time> <span className="level">{line.level}</span>{' '}
        <span className="message">{line.message}</span>
        {line.fields && <code> {JSON.stringify(line.fields)}</code>}
      </p>
    ))}
  </div>
);
