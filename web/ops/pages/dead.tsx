import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { type Filters, useFilters } from '../../dashboard/client/filters.ts';
import { fieldOf } from '../../dashboard/client/form.ts';
import { Failure } from '../../dashboard/components/failure.tsx';
import { type Job, type RedriveOrder, call } from '../client/api.ts';
import { type JobFilter, jobFilterOf } from '../client/job-filter.ts';
import { useJobTypes } from '../client/session.ts';
import { announce } from '../client/announce.ts';
import { countText, numberText } from '../client/words.ts';
import { Ask } from '../components/ask.tsx';
import { TextField, TypeChoice } from '../components/fields.tsx';
import { Heading } from '../components/heading.tsx';
import { JobTable, ListPager, pageSize } from '../components/job-table.tsx';

type DeadFilter = Pick<JobFilter, 'type' | 'project' | 'error_code'>;

const useDeadFilter = (filters: Filters): DeadFilter => {
  const { type, project, error_code: code } = jobFilterOf(filters, useJobTypes());
  return { ...(type && { type }), ...(project && { project }), ...(code && { error_code: code }) };
};

const lettersText = (count: number): string => countText(count, 'dead letter');

/** Calls until nothing is left, or what is left does not change. */
const redriveAll = async (order: RedriveOrder, report: (text: string) => void): Promise<number> => {
  let done = 0;
  for (;;) {
    const { redriven, remaining } = await call('POST /ops/api/dead/redrive', { body: order });
    done += redriven;
    report(`${numberText(done)} redriven, ${numberText(remaining)} to go.`);
    if (remaining === 0 || redriven === 0) return done;
  }
};

/** The dead letters that somebody wants to redrive, in words and as the API wants them. */
interface Wish {
  readonly many: string;
  readonly order: RedriveOrder;
}

interface AskToRedriveProps {
  readonly wish: Wish;
  readonly refresh: () => Promise<unknown>;
  readonly onClose: (isDone: boolean) => void;
}

const AskToRedrive = ({ wish: { many, order }, refresh, onClose }: AskToRedriveProps) => (
  <Ask
    title={`Redrive ${many}?`}
    text="They are queued again, with all their attempts before them."
    action="Redrive"
    onClose={onClose}
    work={async (_form, report) => {
      announce(`${lettersText(await redriveAll(order, report))} redriven.`);
      await refresh();
    }}
  />
);

const FilterForm = ({ filters, filter }: { readonly filters: Filters; readonly filter: DeadFilter }) => {
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const [type, project, code] = ['type', 'project', 'error_code'].map((name) => fieldOf(form, name).trim());
    filters.set({ type: type ?? '', project: project ?? '', error_code: code ?? '', project_id: '' });
  };
  return (
    <form
      className="row filters"
      role="search"
      aria-label="Dead letters"
      onSubmit={submit}
      key={JSON.stringify(filter)}
    >
      <TypeChoice value={filter.type ?? ''} />
      <TextField
        name="project"
        label="Project"
        value={filter.project ?? ''}
        size={18}
        placeholder="name, slug, ref or id"
      />
      <TextField name="error_code" label="Error code" value={filter.error_code ?? ''} size={16} />
      <button type="submit" className="primary">
        Filter
      </button>
    </form>
  );
};

interface Group {
  readonly type: string;
  readonly error_code: string | null;
  readonly count: number;
}

const groupAddress = ({ type, error_code: code }: Group): string =>
  `/dead?${new URLSearchParams({ type, ...(code !== null && { error_code: code }) }).toString()}`;

const Groups = ({ groups }: { readonly groups: readonly Group[] }) => (
  <p className="row">
    {groups.map((group) => (
      <Link key={groupAddress(group)} className="chip" href={groupAddress(group)}>
        {group.type} · {group.error_code ?? 'unknown'} <b>{numberText(group.count)}</b>
      </Link>
    ))}
  </p>
);

interface LettersProps {
  readonly jobs: readonly Job[];
  readonly chosen: readonly string[];
  readonly onChoose: (id: string, isChosen: boolean) => void;
  readonly onWish: (wish: Wish) => void;
}

const Letters = ({ jobs, chosen, onChoose, onWish }: LettersProps) => (
  <JobTable
    caption="Dead letters, newest first"
    jobs={jobs}
    more={[
      {
        label: 'Choose',
        cell: ({ id, type }) => (
          <input
            type="checkbox"
            aria-label={`Choose ${type} ${id}`}
            checked={chosen.includes(id)}
            onChange={({ target }) => onChoose(id, target.checked)}
          />
        ),
      },
      {
        label: 'Action',
        cell: ({ id, type }) => (
          <button
            type="button"
            aria-label={`Redrive ${type} ${id}`}
            onClick={() => onWish({ many: 'this dead letter', order: { ids: [id] } })}
          >
            Redrive
          </button>
        ),
      },
    ]}
  />
);

/** Jobs that are given up until somebody redrives them. */
export const DeadPage = () => {
  const filters = useFilters();
  const filter = useDeadFilter(filters);
  const [wish, setWish] = useState<Wish | null>(null);
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [redriven, setRedriven] = useState(0);
  const all = useRef<HTMLButtonElement>(null);
  const letters = useQuery({
    queryKey: ['dead', filter, filters.offset],
    queryFn: () => call('GET /ops/api/dead', { query: { ...filter, limit: pageSize, offset: filters.offset } }),
    placeholderData: (present) => present,
  });
  useEffect(() => {
    // The row whose button had the focus is gone.
    if (redriven > 0) (all.current?.disabled === false ? all.current : document.querySelector('h1'))?.focus();
  }, [redriven]);

  const { jobs = [], total = 0, total_is_exact: isExact = true, groups = [] } = letters.data ?? {};
  const chosen = jobs.map(({ id }) => id).filter((id) => marked.has(id));
  const isFiltered = Object.keys(filter).length > 0;
  const choose = (id: string, isChosen: boolean): void =>
    setMarked(new Set(isChosen ? [...chosen, id] : chosen.filter((each) => each !== id)));
  const close = (isDone: boolean): void => {
    setWish(null);
    if (isDone) setRedriven(redriven + 1);
  };
  return (
    <>
      <Heading title="Dead letters" />
      <FilterForm filters={filters} filter={filter} />
      {groups.length > 0 && <Groups groups={groups} />}
      <p className="row">
        <button
          ref={all}
          type="button"
          className="primary"
          disabled={total === 0}
          onClick={() =>
            setWish({
              many: `${isExact ? '' : 'more than '}${lettersText(total)}`,
              order: isFiltered ? filter : { all: true },
            })
          }
        >
          {isFiltered ? 'Redrive all of this filter' : 'Redrive all'}
        </button>
        <button
          type="button"
          disabled={chosen.length === 0}
          onClick={() => setWish({ many: lettersText(chosen.length), order: { ids: chosen } })}
        >
          Redrive chosen{chosen.length > 0 && ` (${chosen.length})`}
        </button>
      </p>
      {letters.error && <Failure error={letters.error} onRetry={() => void letters.refetch()} />}
      {letters.data?.jobs.length === 0 && (
        <p className="empty">{isFiltered ? 'No dead letter is like that.' : 'There are no dead letters.'}</p>
      )}
      {jobs.length > 0 && <Letters jobs={jobs} chosen={chosen} onChoose={choose} onWish={setWish} />}
      {letters.data && <ListPager label="dead letters" filters={filters} total={total} isExact={isExact} />}
      {wish !== null && <AskToRedrive wish={wish} refresh={letters.refetch} onClose={close} />}
    </>
  );
};
