interface ChangesProps {
  readonly caption: string;
  readonly before: unknown;
  readonly after: unknown;
  /** The heads of the two columns. */
  readonly names?: readonly [before: string, after: string];
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> => {
  if (value === null || value === undefined) return {};
  return isRecord(value) ? value : { value };
};

const shown = (value: unknown): string => {
  if (value === undefined) return '–';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
};

/** The names of fields that differ, in the order of what is there afterwards. */
export const changedFields = (before: unknown, after: unknown): string[] => {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(now), ...Object.keys(old)])];
  return names.filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]));
};

/** Shows the fields that differ between two states. */
export const Changes = ({ caption, before, after, names = ['Before', 'After'] }: ChangesProps) => {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const changed = changedFields(before, after);
  if (changed.length === 0) return <p className="empty">Nothing differs.</p>;
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
    <div className="scroll changes" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption className="unseen">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">{names[0]}</th>
            <th scope="col">{names[1]}</th>
          </tr>
        </thead>
        <tbody>
          {changed.map((name) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="removed">{shown(old[name])}</td>
              <td className="added">{shown(now[name])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
};
