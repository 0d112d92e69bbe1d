import { Link } from 'wouter';
import type { Worker } from '../client/api.ts';
import { useLive } from '../client/live.ts';
import { numberText, shortId } from '../client/words.ts';
import { Heading } from '../components/heading.tsx';
import { When } from '../components/when.tsx';

const Run = ({ job }: { readonly job: Worker['jobs'][number] }) => (
  <li className="row">
    <Link href={`/jobs/${job.id}`} title={job.id}>
      {job.type} {job.function_name ?? <code>{shortId(job.id)}</code>}
    </Link>
    <Link href={`/jobs?project=${job.project_id}`}>{job.project_name ?? shortId(job.project_id)}</Link>
    {job.attempt > 1 && <span className="muted">attempt {job.attempt}</span>}
    <span className="muted">
      <When at={job.started_at} />
    </span>
  </li>
);

const QueueLine = ({ type, slots, running }: Worker['queues'][number]) => (
  <li>
    <span>{type}</span>
    <meter min={0} max={Math.max(1, slots)} value={running} aria-label={`${type}: running of its slots`} />
    <span className="muted">
      {numberText(running)} of {numberText(slots)}
    </span>
  </li>
);

const WorkerCard = ({ worker }: { readonly worker: Worker }) => (
  <article className="panel" aria-label={worker.name}>
    <h2>{worker.name}</h2>
    <p className="muted small">
      started <When at={worker.started_at} /> · <code>{worker.id}</code>
    </p>
    {worker.sandbox !== null && (
      <ul className="plain row" aria-label="Sandbox of functions">
        {Object.entries(worker.sandbox).map(([language, level]) => (
          <li key={language} className={level === 'strict' ? 'chip' : 'chip bad'}>
            {language}: {level}
          </li>
        ))}
      </ul>
    )}
    <ul className="plain worker-queues" aria-label="Queues">
      {worker.queues.map((queue) => (
        <QueueLine key={queue.type} {...queue} />
      ))}
    </ul>
    <h3>Runs</h3>
    {worker.jobs.length === 0 ? (
      <p className="muted">Runs nothing just now.</p>
    ) : (
      <ul className="plain">
        {worker.jobs.map((job) => (
          <Run key={job.id} job={job} />
        ))}
      </ul>
    )}
  </article>
);

/** The workers that are alive, and what each runs; a second old at most. */
export const WorkersPage = () => {
  const { snapshot } = useLive();
  return (
    <>
      <Heading title="Workers" />
      {snapshot?.workers.length === 0 && (
        <p className="empty">
          {snapshot.redis ? 'No worker is alive. Jobs wait until one starts.' : 'Unknown while Redis does not answer.'}
        </p>
      )}
      <div className="queue-cards">
        {snapshot?.workers.map((worker) => (
          <WorkerCard key={worker.id} worker={worker} />
        ))}
      </div>
    </>
  );
};
