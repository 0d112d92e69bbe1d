import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Time } from '../../components/time.tsx';
import { type Delivery, deliveryClass, deliveryTexts } from './shapes.ts';

/** JSON with line breaks; every other text, and numbers within JSON, as they came. */
const readable = (text: string): string => {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  // Numbers keep each digit: the text is only broken into lines, outside of strings.
  let [depth, shown] = [0, ''];
  for (const [part] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s"[\]{},:]+/g)) {
    if (part === '{' || part === '[') depth += 1;
    if (part === '}' || part === ']') depth -= 1;
    const line = `\n${'  '.repeat(depth)}`;
    if (part === '}' || part === ']') shown += line + part;
    else if (part === '{' || part === '[' || part === ',') shown += part + line;
    else shown += part === ':' ? ': ' : part;
  }
  return shown.replaceAll(/([[{])\s+([\]}])/g, '$1$2');
};

const Request = ({ delivery }: { readonly delivery: Delivery }) => (
  <section className="panel" aria-label="Request">
    <h2>Request</h2>
    {delivery.request_headers !== null && (
      <pre>
        {Object.entries(delivery.request_headers)
          .map(([name, value]) => `${name}: ${value}`)
          .join('\n')}
      </pre>
    )}
    {delivery.request_body === null ? (
      <p className="muted">Its event is not kept any more.</p>
    ) : (
      <pre>{readable(delivery.request_body)}</pre>
    )}
  </section>
);

const Answer = ({ delivery }: { readonly delivery: Delivery }) => (
  <section className="panel" aria-label="Answer">
    <h2>Answer</h2>
    <p>
      {delivery.status_code === null ? 'There was none.' : <strong>{delivery.status_code}</strong>}
      {delivery.response_time_ms !== null && ` after ${delivery.response_time_ms} ms`}
    </p>
    {delivery.error !== null && <p className="bad">{delivery.error}</p>}
    {delivery.response_body !== null && <pre>{readable(delivery.response_body)}</pre>}
    {delivery.response_truncated && <p className="muted">The receiver answered more than that.</p>}
  </section>
);

const Attempts = ({ delivery }: { readonly delivery: Delivery }) => (
  <section aria-label="Attempts">
    <h2>Attempts</h2>
    <ol className="timeline">
      <li>
        <Time at={delivery.created_at} /> made
      </li>
      {delivery.attempts.map((attempt) => (
        <li key={attempt.at} className={attempt.error === null ? 'good' : 'bad'}>
          <Time at={attempt.at} /> {attempt.status_code ?? 'no answer'}
          {attempt.response_time_ms !== null && ` after ${attempt.response_time_ms} ms`}
          {attempt.error !== null && `: ${attempt.error}`}
        </li>
      ))}
      {delivery.next_attempt_at !== null && (
        <li>
          <Time at={delivery.next_attempt_at} /> next attempt
        </li>
      )}
    </ol>
  </section>
);

/** One delivery: what was sent and what was answered, side by side. */
export const DeliveryPage = ({ id, did }: { readonly id: string; readonly did: string }) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const params = { project_id: project.id, webhook_id: id, did };
  const pace = usePace(2000);
  const delivery = useQuery({
    queryKey: ['delivery', did],
    queryFn: () => call('GET /projects/{project_id}/integrations/webhooks/{webhook_id}/deliveries/{did}', { params }),
    refetchInterval: ({ state }) => (state.data?.status === 'pending' ? pace : false),
  });
  const redeliver = useMutation({
    mutationFn: () =>
      call('POST /projects/{project_id}/integrations/webhooks/{webhook_id}/deliveries/{did}/redeliver', {
        params,
        body: {},
      }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['delivery', did] }),
  });
  if (delivery.data === undefined && delivery.error)
    return <Failure error={delivery.error} onRetry={() => void delivery.refetch()} />;
  if (delivery.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = delivery;
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/webhooks/${id}?tab=deliveries`}>All deliveries of the webhook</Link>
      </p>
      <div className="row head">
        <h1>{data.event}</h1>
        {atLeast(role, 'developer') && data.status !== 'pending' && !data.event.startsWith('test.') && (
          <button type="button" className="primary" disabled={redeliver.isPending} onClick={() => redeliver.mutate()}>
            Send it once more
          </button>
        )}
      </div>
      {delivery.error && <Failure error={delivery.error} onRetry={() => void delivery.refetch()} />}
      {redeliver.error && <Failure error={redeliver.error} />}
      <p role="status">
        <span className={`tag ${deliveryClass(data.status)}`}>{data.status}</span> {deliveryTexts[data.status]}
      </p>
      <div className="sides">
        <Request delivery={data} />
        <Answer delivery={data} />
      </div>
      <Attempts delivery={data} />
    </>
  );
};
