import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { type Queue, call } from '../client/api.ts';
import { announce } from '../client/announce.ts';
import { compactText, countText, millisecondsText, numberText, secondsText } from '../client/words.ts';
import { fieldOf } from '../../dashboard/client/form.ts';
import { Ask } from '../components/ask.tsx';
import { LimitField, limitOf } from '../components/fields.tsx';
import { Switch } from './switch.tsx';

const State = ({ queue: { open, paused, workers_alive: alive } }: { readonly queue: Queue }) => {
  if (open === null) return <span className="tag">unknown</span>;
  // Workers open the gate: without one it stays closed, and nothing is being rebuilt.
  if (alive === 0) return <span className="tag bad">no worker</span>;
  if (!open) return <span className="tag bad">rebuilding</span>;
  return paused === true ? <span className="tag warn">paused</span> : <span className="tag good">open</span>;
};

const limitText = ({ limit, own_limit: own }: Queue): string => {
  if (limit === null) return 'no limit: as many as there are slots';
  return `${numberText(limit)} at a time${own === null ? ' (setting)' : ' (set here)'}`;
};

interface AskProps {
  readonly queue: Queue;
  readonly onClose: () => void;
}

const AskLimit = ({ queue, onClose }: AskProps) => (
  <Ask
    title={`Global limit of ${queue.type}`}
    text="How many jobs of this type run at a time on the whole installation. Empty: what the settings say."
    action="Set limit"
    onClose={onClose}
    work={async (form) => {
      await call('PUT /ops/api/queues/{type}/limit', {
        params: { type: queue.type },
        body: { limit: limitOf(fieldOf(form, 'limit')) },
      });
      announce(`The limit of ${queue.type} is set.`);
    }}
  >
    <LimitField name="limit" label="At a time" min={1} value={queue.own_limit} hint={`now ${limitText(queue)}`} />
  </Ask>
);

const AskSwitch = ({ queue: present, onClose }: AskProps) => {
  // The question stays what it was when the queue changes under it.
  const [queue] = useState(present);
  const action = queue.paused === true ? 'resume' : 'pause';
  return (
    <Switch
      action={action}
      what={`${queue.type} for all projects`}
      counts={queue}
      others={action === 'pause' ? 'Other types go on.' : 'Projects that are paused by themselves stay so.'}
      work={() => call(`POST /ops/api/queues/{type}/${action}`, { params: { type: queue.type }, body: {} })}
      onClose={onClose}
    />
  );
};

const capacityText = ({ window, slots, workers_alive: alive, pool }: Queue): string =>
  window === null
    ? `pool ${pool}`
    : `window ${numberText(window)}, ${numberText(slots)} slots on ${countText(alive ?? 0, 'worker')}, pool ${pool}`;

const Figure = ({ name, value }: { readonly name: string; readonly value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);

const Failures = ({ queue: { type, failures, dead } }: { readonly queue: Queue }) => (
  <div className="row failures">
    <h3>Failures</h3>
    {failures.length === 0 && <span className="muted">none in the last hour</span>}
    {failures.map(({ code, count }) => (
      <Link key={code} className="chip" href={`/jobs?${new URLSearchParams({ type, error_code: code }).toString()}`}>
        {code} <b>{compactText(count)}</b>
      </Link>
    ))}
    {dead > 0 && (
      <Link className="chip bad" href={`/dead?${new URLSearchParams({ type }).toString()}`}>
        {numberText(dead)} dead
      </Link>
    )}
  </div>
);

/** One job type: where it stands, and the buttons that pause and limit it. */
export const QueueCard = ({ queue, children }: { readonly queue: Queue; readonly children: ReactNode }) => {
  const [asking, setAsking] = useState<'limit' | 'switch' | null>(null);
  const close = (): void => setAsking(null);
  const { type, accepted, finished, wait_ms: waits } = queue;
  const verb = queue.paused === true ? 'Resume' : 'Pause';
  return (
    <article className="panel" aria-label={type}>
      <header className="row">
        <h2>{type}</h2>
        <State queue={queue} />
        <span className="fill" />
        <button type="button" aria-label={`Global limit of ${type}`} onClick={() => setAsking('limit')}>
          Limit
        </button>
        <button type="button" aria-label={`${verb} ${type} for all projects`} onClick={() => setAsking('switch')}>
          {verb}
        </button>
      </header>
      <dl className="figures">
        <Figure name="Waiting" value={compactText(queue.waiting)} />
        <Figure name="Running" value={compactText(queue.running)} />
        <Figure name="Oldest wait" value={secondsText(queue.oldest_wait_seconds)} />
      </dl>
      <meter
        min={0}
        max={Math.max(1, queue.window ?? 0)}
        value={queue.running ?? 0}
        aria-label={`${type}: running of the window`}
      />
      <p className="muted small">
        {capacityText(queue)}
        <br />
        Global limit: {limitText(queue)}
      </p>
      {children}
      <dl className="figures small">
        <Figure name="Accepted, min / h" value={`${compactText(accepted.minute)} / ${compactText(accepted.hour)}`} />
        <Figure name="Finished, min / h" value={`${compactText(finished.minute)} / ${compactText(finished.hour)}`} />
        <Figure name="Wait p50 / p95" value={`${millisecondsText(waits.p50)} / ${millisecondsText(waits.p95)}`} />
      </dl>
      <Failures queue={queue} />
      {asking === 'limit' && <AskLimit queue={queue} onClose={close} />}
      {asking === 'switch' && <AskSwitch queue={queue} onClose={close} />}
    </article>
  );
};
