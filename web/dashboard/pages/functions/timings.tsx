import type { Operations } from '../../client/types.ts';

type Invocation = Operations['GET /projects/{project_id}/functions/{id}/invocations/{iid}']['answer'];
type Timings = NonNullable<Invocation['timings']>;

const parts: Readonly<Record<keyof Timings, { readonly label: string; readonly reason: string }>> = {
  queue: { label: 'Waited in the queue', reason: 'It waited in the queue until a worker had a place for it.' },
  start: { label: 'Started', reason: 'Its sandbox had to start: the code was not warm yet.' },
  db: {
    label: 'Waited for the database',
    reason: 'It waited for the database: look at its queries and their indexes.',
  },
  fetch: { label: 'Waited for requests', reason: 'It waited for other servers that it called.' },
  cpu: { label: 'Computed', reason: 'Its own code computed.' },
};

const shown = (ms: number): string => (ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(1)} ms`);

/** In which part most of the time went, in words; null when there was not enough of it to say. */
const reasonOf = (timings: Timings): string | null => {
  const [longest] = (Object.entries(timings) as [keyof Timings, number][]).toSorted(([, a], [, b]) => b - a);
  return longest === undefined || longest[1] < 5 ? null : parts[longest[0]].reason;
};

/** Where the time of a run went. Parts overlap: a database call and a request can be under way together. */
export const TimingBars = ({ timings }: { readonly timings: Timings }) => {
  const longest = Math.max(1, ...Object.values(timings));
  const reason = reasonOf(timings);
  return (
    <section aria-label="Where the time went">
      <h3>Why it took so long</h3>
      <p>{reason ?? 'It was quick everywhere.'}</p>
      <dl className="timings">
        {(Object.entries(timings) as [keyof Timings, number][]).map(([part, ms]) => (
          <div key={part}>
            <dt>{parts[part].label}</dt>
            <dd>
              <meter min={0} max={longest} value={ms} aria-label={parts[part].label} /> {shown(ms)}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
};
