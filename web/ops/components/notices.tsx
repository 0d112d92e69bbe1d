import type { Queue } from '../client/api.ts';
import { useLive } from '../client/live.ts';
import { listText } from '../client/words.ts';

type Notice = readonly [className: 'failure' | 'notice warn', text: string];

const typesOf = (queues: readonly Queue[], isMeant: (queue: Queue) => boolean): string =>
  listText(queues.filter(isMeant).map(({ type }) => type));

const ofQueues = (queues: readonly Queue[]): readonly Notice[] => {
  const closed = typesOf(queues, ({ open, workers_alive: alive }) => open === false && alive !== 0);
  const idle = typesOf(queues, ({ workers_alive: alive, waiting }) => alive === 0 && (waiting ?? 0) > 0);
  const paused = typesOf(queues, (queue) => queue.paused === true);
  const notices: (Notice | null)[] = [
    closed === ''
      ? null
      : ['failure', `The gate of ${closed} is being rebuilt from Postgres. Its jobs wait until that is done.`],
    idle === '' ? null : ['failure', `Jobs wait, and no worker is alive for ${idle}.`],
    paused === '' ? null : ['notice warn', `Paused for all projects: ${paused}.`],
  ];
  return notices.filter((notice) => notice !== null);
};

const useNotices = (): readonly Notice[] => {
  const { state, snapshot } = useLive();
  if (state === 'trouble') return [['failure', 'Postgres does not answer. What is shown may be old.']];
  if (state === 'lost')
    return [['notice warn', 'The connection to the API is lost; trying again. What is shown may be old.']];
  if (snapshot === null) return [];
  if (!snapshot.redis)
    return [
      ['failure', 'Redis does not answer. Nothing new is handed to workers; what was accepted is safe in Postgres.'],
    ];
  return ofQueues(snapshot.queues);
};

/** The notices at the top of every view; a status region, so that changes are read out. */
export const Notices = () => (
  <div role="status" className="notices">
    {useNotices().map(([className, text]) => (
      <p key={text} className={className}>
        {text}
      </p>
    ))}
  </div>
);
