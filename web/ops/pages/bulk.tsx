import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Failure } from '../../dashboard/components/failure.tsx';
import { call } from '../client/api.ts';
import type { JobFilter } from '../client/job-filter.ts';
import { announce } from '../client/announce.ts';
import { countText, numberText } from '../client/words.ts';
import { Ask } from '../components/ask.tsx';
import { Facts } from '../components/facts.tsx';

type Action = 'retry' | 'cancel';

const actions = ['retry', 'cancel'] as const;

/** Statuses in which a job can be changed like that. */
const possible: Readonly<Record<Action, ReadonlySet<string>>> = {
  retry: new Set(['failed', 'dead', 'cancelled', 'expired']),
  cancel: new Set(['queued', 'running', 'waiting']),
};

const words = {
  retry: {
    label: 'Retry all of this filter…',
    verb: 'Retry',
    text: 'Those that failed, died, expired or were cancelled are queued again under their ids. What they had done before is done again.',
    none: 'No job of this filter can be retried.',
    confirm: 'Retry them',
    done: 'retried',
  },
  cancel: {
    label: 'Cancel all of this filter…',
    verb: 'Cancel',
    text: 'Those that wait end at once, those that run are stopped where they are. Their callers are told.',
    none: 'No job of this filter waits or runs.',
    confirm: 'Cancel them',
    done: 'cancelled',
  },
} as const;

/** The server counts up to 100,000. */
const mostCounted = 100_000;

const jobsText = (count: number): string => `${count >= mostCounted ? 'at least ' : ''}${countText(count, 'job')}`;

// The button of an action is off where the status of the filter does not fit.
const change = (action: Action, filter: JobFilter, isDryRun: boolean) =>
  action === 'retry'
    ? call('POST /ops/api/jobs/retry', { body: { filter: filter as object, dry_run: isDryRun } })
    : call('POST /ops/api/jobs/cancel', { body: { filter: filter as object, dry_run: isDryRun } });

/** Calls until nothing changes any more: one call works for 20 s at most. */
const changeAll = async (action: Action, filter: JobFilter, report: (text: string) => void): Promise<number> => {
  let done = 0;
  for (;;) {
    const { matched, changed } = await change(action, filter, false);
    done += changed;
    report(`${numberText(done)} ${words[action].done}.`);
    if (changed === 0 || changed >= matched) return done;
  }
};

interface BulkProps {
  readonly filter: JobFilter;
  readonly refresh: () => Promise<unknown>;
}

interface AskToChangeProps extends BulkProps {
  readonly action: Action;
  readonly matched: number;
  readonly onClose: () => void;
}

const AskToChange = ({ action, filter, matched, refresh, onClose }: AskToChangeProps) => {
  const { verb, text, confirm, done } = words[action];
  return (
    <Ask
      title={`${verb} ${jobsText(matched)}?`}
      text={text}
      action={confirm}
      isDangerous={action === 'cancel'}
      onClose={onClose}
      work={async (_form, report) => {
        announce(`${jobsText(await changeAll(action, filter, report))} ${done}.`);
        await refresh();
      }}
    >
      <Facts
        of={Object.fromEntries(Object.entries(filter).map(([name, value]) => [name.replaceAll('_', ' '), value]))}
      />
    </Ask>
  );
};

/** Buttons that change all jobs of a filter, after a question that says how many; without a filter they do nothing. */
export const BulkButtons = ({ filter, refresh }: BulkProps) => {
  const [asking, setAsking] = useState<{ readonly action: Action; readonly matched: number } | null>(null);
  const count = useMutation({
    mutationFn: async (action: Action) => ({ action, matched: (await change(action, filter, true)).matched }),
    onSuccess: (counted) => setAsking(counted.matched > 0 ? counted : null),
  });
  const isEmpty = Object.keys(filter).length === 0;
  const isPossible = (action: Action): boolean =>
    !isEmpty && (filter.status === undefined || possible[action].has(filter.status));
  return (
    <>
      <p className="row">
        {actions.map((action) => (
          <button
            key={action}
            type="button"
            disabled={!isPossible(action)}
            title={isEmpty ? 'Name something in the filter first.' : undefined}
            aria-busy={count.isPending && count.variables === action}
            onClick={() => {
              if (!count.isPending) count.mutate(action);
            }}
          >
            {words[action].label}
          </button>
        ))}
      </p>
      <div role="status">
        {count.data?.matched === 0 && <p className="notice warn">{words[count.data.action].none}</p>}
      </div>
      {count.error && <Failure error={count.error} />}
      {asking !== null && <AskToChange {...asking} filter={filter} refresh={refresh} onClose={() => setAsking(null)} />}
    </>
  );
};
