import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { useSearch } from '../../client/search.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { nanoUsdText, usdText } from './money.ts';

type Usage = Operations['GET /projects/{project_id}/ai/usage']['answer'];
type Budget = Operations['GET /projects/{project_id}/ai/budget']['answer'];
type Logged = Usage['recent_logs'][number];

const countText = (count: number): string => count.toLocaleString('en');

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
  if (budget.error) return <Failure error={budget.error} onRetry={() => void budget.refetch()} />;
  if (budget.data === undefined) return null;
  const { monthly_usd: limit, used_usd: used, hard } = budget.data;
  return (
    <p className="row budget">
      {limit === null ? (
        <span className="muted">No budget is set.</span>
      ) : (
        <>
          <span>
            {usdText(used ?? 0)} of {usdText(limit)} this month{hard ? '; calls beyond it are refused' : ''}
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

/** The days as bars of their cost, or of their requests where nothing has a price. */
const Days = ({ days }: { readonly days: Usage['by_day'] }) => {
  const most = Math.max(1, ...days.map(({ cost_nano_usd: cost }) => cost));
  return (
    <Table caption="By day" columns={['Day', 'Requests', 'Tokens', 'Cost', '']}>
      {days.map(({ day, requests, tokens, cost_nano_usd: cost }) => (
        <tr key={day}>
          <td>{day}</td>
          <td>{countText(requests)}</td>
          <td>{countText(tokens)}</td>
          <td>{nanoUsdText(cost)}</td>
          <td>
            <progress aria-label={`Cost of ${day}`} value={cost} max={most} />
          </td>
        </tr>
      ))}
    </Table>
  );
};

const matches = ({ status, model, provider }: Logged, wanted: string, text: string): boolean =>
  (wanted === '' || status === wanted) && `${provider}/${model}`.toLowerCase().includes(text.toLowerCase());

const statuses = ['success', 'error', 'incomplete', 'client_closed'] as const;

/** The latest calls, by status and model. */
const Calls = ({ calls }: { readonly calls: readonly Logged[] }) => {
  const [search, setSearch] = useSearch();
  const [status, text] = [search.get('status') ?? '', search.get('q') ?? ''];
  const set = (name: string, value: string): void =>
    setSearch((known) => {
      if (value === '') known.delete(name);
      else known.set(name, value);
      return known;
    });
  const shown = calls.filter((one) => matches(one, status, text));
  return (
    <>
      <h2>Latest calls</h2>
      <div className="row">
        <label className="inline">
          Status
          <select value={status} onChange={({ target }) => set('status', target.value)}>
            <option value="">any</option>
            {statuses.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label className="inline">
          Model
          <input value={text} onChange={({ target }) => set('q', target.value)} placeholder="part of its name" />
        </label>
        <span className="muted">
          {shown.length} of the latest {calls.length}
        </span>
      </div>
      <Table
        caption="Latest calls"
        isCaptionHidden
        columns={['Time', 'Kind', 'Model', 'Status', 'Tokens', 'Cost', 'First word', 'Whole', 'Request']}
      >
        {shown.map((one) => (
          <tr key={one.id}>
            <td>{whenOf(one.created_at)}</td>
            <td>{one.kind}</td>
            <td>
              {one.provider}/{one.model}
            </td>
            <td className={one.status === 'success' ? 'good' : 'bad'}>{one.error_code ?? one.status}</td>
            <td>{one.prompt_tokens === null ? '–' : `${one.prompt_tokens} + ${one.completion_tokens ?? 0}`}</td>
            <td>{nanoUsdText(one.cost_nano_usd)}</td>
            <td>{one.ttft_ms === null ? '–' : `${one.ttft_ms} ms`}</td>
            <td>{one.latency_ms === null ? '–' : `${one.latency_ms} ms`}</td>
            <td>
              <code>{one.request_id}</code>
            </td>
          </tr>
        ))}
      </Table>
    </>
  );
};

/** The cost of calls to models, by day, provider and call. */
export const AiUsage = () => {
  const { project } = useProject();
  const [search, setSearch] = useSearch();
  const days = Number(search.get('days') ?? 30);
  const usage = useQuery({
    queryKey: ['ai-usage', project.id, days],
    queryFn: () => call('GET /projects/{project_id}/ai/usage', { params: { project_id: project.id }, query: { days } }),
  });
  return (
    <>
      <BudgetBar />
      <label className="inline">
        Days
        <select
          value={String(days)}
          onChange={({ target }) =>
            setSearch((known) => {
              known.set('days', target.value);
              return known;
            })
          }
        >
          {[7, 30, 90].map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      {usage.error && <Failure error={usage.error} onRetry={() => void usage.refetch()} />}
      {usage.data && (
        <>
          <dl className="figures">
            <div>
              <dt>Requests</dt>
              <dd>{countText(usage.data.total_requests)}</dd>
            </div>
            <div>
              <dt>Tokens</dt>
              <dd>{countText(usage.data.total_tokens.prompt + usage.data.total_tokens.completion)}</dd>
            </div>
            <div>
              <dt>Cost</dt>
              <dd>{nanoUsdText(usage.data.total_cost_nano_usd)}</dd>
            </div>
          </dl>
          <Table caption="By provider" columns={['Provider', 'Requests', 'Tokens', 'Cost']}>
            {Object.entries(usage.data.by_provider).map(([provider, one]) => (
              <tr key={provider}>
                <td>{provider}</td>
                <td>{countText(one.requests)}</td>
                <td>{countText(one.tokens)}</td>
                <td>{nanoUsdText(one.cost_nano_usd)}</td>
              </tr>
            ))}
          </Table>
          <Days days={usage.data.by_day.filter(({ requests }) => requests > 0)} />
          <Calls calls={usage.data.recent_logs} />
        </>
      )}
    </>
  );
};
