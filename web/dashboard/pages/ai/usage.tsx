import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { csvOf } from '../../client/csv.ts';
import { saveFile } from '../../client/download.ts';
import { oneOf, useFilters } from '../../client/filters.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { KeyFilter, ModelFilter, type ModelName, keyNameOf, useKeys } from './call-filters.tsx';
import { nanoUsdText, usdText } from './money.ts';

type Group = Operations['GET /projects/{project_id}/ai/usage/groups']['answer']['groups'][number];
type Budget = Operations['GET /projects/{project_id}/ai/budget']['answer'];

const countText = (count: number): string => count.toLocaleString('en');

const dayOf = (at: string): string => new Date(at).toLocaleDateString('en', { dateStyle: 'long', timeZone: 'UTC' });

const BudgetDialog = ({ budget, onClose }: { readonly budget: Budget; readonly onClose: () => void }) => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const options = { stale: [['ai-budget', project.id]], onDone: onClose };
  const save = useChange(
    (body: { monthly_usd: number; hard: boolean }) => call('PUT /projects/{project_id}/ai/budget', { params, body }),
    options,
  );
  const remove = useChange(() => call('DELETE /projects/{project_id}/ai/budget', { params }), options);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    save.mutate({ monthly_usd: Number(fieldOf(form, 'usd')), hard: fieldOf(form, 'hard') === 'on' });
  };
  return (
    <Dialog title="Budget of a month" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          US dollars
          <input name="usd" type="number" min={0} step="any" required defaultValue={budget.monthly_usd ?? ''} />
        </label>
        <label className="inline">
          <input name="hard" type="checkbox" defaultChecked={budget.hard} />
          Calls beyond it are refused
        </label>
        {(save.error ?? remove.error) && <Failure error={save.error ?? remove.error} />}
        <p className="row end">
          {budget.monthly_usd !== null && (
            <button type="button" onClick={() => remove.mutate(undefined)}>
              Without a budget
            </button>
          )}
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={save.isPending}>
            Save the budget
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** The cost of the month, beside the budget. */
const BudgetBar = () => {
  const { project, role } = useProject();
  const [isOpen, setOpen] = useState(false);
  const budget = useQuery({
    queryKey: ['ai-budget', project.id],
    queryFn: () => call('GET /projects/{project_id}/ai/budget', { params: { project_id: project.id } }),
  });
  if (budget.data === undefined && budget.error)
    return <Failure error={budget.error} onRetry={() => void budget.refetch()} />;
  if (budget.data === undefined) return null;
  const { monthly_usd: limit, used_usd: used, hard, resets_at: resetsAt } = budget.data;
  return (
    <p className="row budget">
      {limit === null ? (
        <span className="muted">No budget is set.</span>
      ) : (
        <>
          <span>
            {usdText(used ?? 0)} of {usdText(limit)} this month{hard ? '; calls beyond it are refused' : ''}
          </span>
          <span className="muted">
            It begins anew on <time dateTime={resetsAt}>{dayOf(resetsAt)}</time> at 0:00 UTC.
          </span>
          <meter
            aria-label="Budget used"
            value={used ?? 0}
            max={Math.max(limit, 1e-9)}
            low={limit * 0.8}
            high={limit * 0.95}
          />
        </>
      )}
      {atLeast(role, 'admin') && (
        <button type="button" onClick={() => setOpen(true)}>
          Set the budget
        </button>
      )}
      {isOpen && <BudgetDialog budget={budget.data} onClose={() => setOpen(false)} />}
    </p>
  );
};

/** The parts by which lines of the table differ; those that it leaves out are added up. */
const views = {
  day: { text: 'day', parts: ['day'] },
  model: { text: 'model', parts: ['model'] },
  key: { text: 'key', parts: ['key'] },
  all: { text: 'day, model and key', parts: ['day', 'model', 'key'] },
} as const;
type View = keyof typeof views;
type Part = (typeof views)['all']['parts'][number];

const partNames: Readonly<Record<Part, string>> = { day: 'Day', model: 'Model', key: 'Key' };

interface Sums {
  readonly requests: number;
  readonly failed: number;
  readonly prompt: number;
  readonly completion: number;
  readonly cost: number;
}

interface Line extends Sums {
  readonly names: readonly string[];
}

const sumsOf = (groups: readonly Group[]): Sums =>
  groups.reduce<Sums>(
    (sum, group) => ({
      requests: sum.requests + group.requests,
      failed: sum.failed + group.failed,
      prompt: sum.prompt + group.prompt_tokens,
      completion: sum.completion + group.completion_tokens,
      cost: sum.cost + group.cost_nano_usd,
    }),
    { requests: 0, failed: 0, prompt: 0, completion: 0, cost: 0 },
  );

type NameOf = (group: Group, part: Part) => string;

/** The latest day first; models and keys by what they cost. */
const linesOf = (groups: readonly Group[], view: View, nameOf: NameOf): readonly Line[] => {
  const namesOf = (group: Group): string[] => views[view].parts.map((part) => nameOf(group, part));
  const lines = [...Map.groupBy(groups, (group) => JSON.stringify(namesOf(group)))].map(([names, of]) => ({
    names: JSON.parse(names) as string[],
    ...sumsOf(of),
  }));
  return view === 'day' || view === 'all' ? lines : lines.toSorted((a, b) => b.cost - a.cost);
};

const UsageTable = ({ lines, view }: { readonly lines: readonly Line[]; readonly view: View }) => {
  const most = Math.max(1, ...lines.map(({ cost }) => cost));
  const columns = views[view].parts.map((part) => partNames[part]);
  return (
    <Table caption={`By ${views[view].text}`} columns={[...columns, 'Requests', 'Failed', 'Tokens', 'Cost', '']}>
      {lines.map(({ names, requests, failed, prompt, completion, cost }) => (
        <tr key={names.join('\n')}>
          {names.map((name, place) => (
            // oxlint-disable-next-line react/no-array-index-key -- the columns never change their places
            <td key={place}>
              <bdi>{name}</bdi>
            </td>
          ))}
          <td>{countText(requests)}</td>
          <td className={failed > 0 ? 'bad' : undefined}>{countText(failed)}</td>
          <td>
            {countText(prompt)} + {countText(completion)}
          </td>
          <td>{nanoUsdText(cost)}</td>
          <td>
            <progress aria-label={`Cost of ${names.join(', ')}`} value={cost} max={most} />
          </td>
        </tr>
      ))}
    </Table>
  );
};

const Totals = ({ requests, failed, prompt, completion, cost }: Sums) => (
  <dl className="figures">
    <div>
      <dt>Requests</dt>
      <dd>{countText(requests)}</dd>
    </div>
    <div>
      <dt>Failed</dt>
      <dd>{countText(failed)}</dd>
    </div>
    <div>
      <dt>Tokens</dt>
      <dd>{countText(prompt + completion)}</dd>
    </div>
    <div>
      <dt>Cost</dt>
      <dd>{nanoUsdText(cost)}</dd>
    </div>
  </dl>
);

const csvColumns = [
  'day',
  'provider',
  'model',
  'api_key_id',
  'key',
  'requests',
  'failed',
  'prompt_tokens',
  'completion_tokens',
  'cost_usd',
];

const csvText = (groups: readonly Group[], nameOf: NameOf): string =>
  csvOf(
    csvColumns,
    groups.map((group) => [
      group.day,
      group.provider,
      group.model,
      group.api_key_id,
      nameOf(group, 'key'),
      group.requests,
      group.failed,
      group.prompt_tokens,
      group.completion_tokens,
      group.cost_nano_usd / 1e9,
    ]),
  );

const spans = ['7', '30', '90', '365'] as const;
const viewNames = Object.keys(views) as View[];

const useGroups = (days: string, { provider, model }: ModelName, key: string) => {
  const { project } = useProject();
  const query = {
    days: Number(days),
    ...(provider !== undefined && { provider }),
    ...(model !== undefined && { model }),
    ...(key !== '' && { api_key_id: key }),
  };
  return useQuery({
    queryKey: ['ai-usage', project.id, query],
    queryFn: () => call('GET /projects/{project_id}/ai/usage/groups', { params: { project_id: project.id }, query }),
    placeholderData: (present) => present,
  });
};

/** The cost of calls of models, by day, model and key. */
export const AiUsage = () => {
  const { project } = useProject();
  const filters = useFilters();
  const keys = useKeys();
  const view = oneOf(viewNames, filters.get('by')) ?? 'day';
  const days = oneOf(spans, filters.get('days')) ?? '30';
  const model = { provider: filters.get('provider') || undefined, model: filters.get('model') || undefined };
  const usage = useGroups(days, model, filters.get('key'));
  const groups = usage.data?.groups ?? [];
  const nameOf: NameOf = (group, part) =>
    part === 'day'
      ? group.day
      : part === 'model'
        ? `${group.provider}/${group.model}`
        : keyNameOf(group.api_key_id, keys.data);
  return (
    <>
      <BudgetBar />
      <div className="row">
        <label className="inline">
          By
          <select value={view} onChange={({ target }) => filters.set({ by: target.value })}>
            {viewNames.map((each) => (
              <option key={each} value={each}>
                {views[each].text}
              </option>
            ))}
          </select>
        </label>
        <label className="inline">
          Days
          <select value={days} onChange={({ target }) => filters.set({ days: target.value })}>
            {spans.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <ModelFilter filters={filters} models={groups} />
        <KeyFilter filters={filters} keys={keys.data} />
        <button
          type="button"
          disabled={groups.length === 0}
          onClick={() => saveFile(`ai-usage-${project.ref}.csv`, [csvText(groups, nameOf)], 'text/csv')}
        >
          Download as CSV
        </button>
      </div>
      {usage.error && <Failure error={usage.error} onRetry={() => void usage.refetch()} />}
      {usage.data && (
        <>
          <Totals {...sumsOf(groups)} />
          {usage.data.is_cut && (
            <p className="bad" role="alert">
              There is more than one answer holds: choose fewer days, a model or a key.
            </p>
          )}
          {groups.length === 0 ? (
            <p className="empty">No model was called in this time.</p>
          ) : (
            <UsageTable lines={linesOf(groups, view, nameOf)} view={view} />
          )}
        </>
      )}
    </>
  );
};
