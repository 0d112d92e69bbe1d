import { useInfiniteQuery } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { oneOf, useFilters } from '../../client/filters.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { KeyFilter, ModelFilter, keyNameOf, useKeys } from './call-filters.tsx';
import { nanoUsdText } from './money.ts';

type List = Operations['GET /projects/{project_id}/ai/calls'];
type Call = List['answer']['calls'][number];
type Query = NonNullable<List['query']>;

/** The status of a call, in words. */
export const statusTexts: Readonly<Record<Call['status'], string>> = {
  open: 'under way',
  success: 'answered',
  error: 'failed',
  incomplete: 'broken off',
  client_closed: 'its caller left',
};
const statuses = Object.keys(statusTexts) as Call['status'][];

export const statusClass = (status: Call['status']): string =>
  status === 'success' ? 'good' : status === 'open' ? '' : 'bad';

const msText = (ms: number | null): string => (ms === null ? '–' : `${ms.toLocaleString('en')} ms`);

const filterOf = (get: (name: string) => string): Query => {
  const status = oneOf(statuses, get('status'));
  const named = [
    ['provider', get('provider')],
    ['model', get('model')],
    ['api_key_id', get('key')],
    ['day', get('day')],
    ['request_id', get('request_id')],
  ].filter(([, value]) => value !== '');
  return { ...(Object.fromEntries(named) as Query), ...(status && { status }) };
};

const useCalls = (filter: Query) => {
  const { project } = useProject();
  return useInfiniteQuery({
    queryKey: ['ai-calls', project.id, filter],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      call('GET /projects/{project_id}/ai/calls', {
        params: { project_id: project.id },
        query: { ...filter, ...(pageParam !== '' && { cursor: pageParam }) },
      }),
    getNextPageParam: ({ next }) => next ?? undefined,
    placeholderData: (present) => present,
  });
};

const CallRow = ({ one, keyName }: { readonly one: Call; readonly keyName: string }) => {
  const { project } = useProject();
  return (
    <tr>
      <td>
        <Link href={`/projects/${project.id}/ai/calls/${one.id}`}>
          <Time at={one.created_at} />
        </Link>
      </td>
      <td>{one.kind}</td>
      <td>
        <bdi>
          {one.provider}/{one.model}
        </bdi>
      </td>
      <td>
        <bdi>{keyName}</bdi>
      </td>
      <td className={statusClass(one.status)}>{one.error_code ?? statusTexts[one.status]}</td>
      <td>{one.prompt_tokens === null ? '–' : `${one.prompt_tokens} + ${one.completion_tokens ?? 0}`}</td>
      <td>{nanoUsdText(one.cost_nano_usd)}</td>
      <td>{msText(one.ttft_ms)}</td>
      <td>{msText(one.latency_ms)}</td>
      <td>
        <code>{one.request_id}</code>
      </td>
    </tr>
  );
};

/** The calls of models one by one, the latest first. */
export const AiCalls = () => {
  const filters = useFilters();
  const keys = useKeys();
  const calls = useCalls(filterOf(filters.get));
  const rows = (calls.data?.pages ?? []).flatMap((page) => page.calls);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    filters.set({ request_id: fieldOf(form, 'request_id').trim(), day: fieldOf(form, 'day') });
  };
  return (
    <>
      <form className="row" onSubmit={submit} key={`${filters.get('request_id')} ${filters.get('day')}`}>
        <label className="inline">
          Status
          <select value={filters.get('status')} onChange={({ target }) => filters.set({ status: target.value })}>
            <option value="">any</option>
            {statuses.map((each) => (
              <option key={each} value={each}>
                {statusTexts[each]}
              </option>
            ))}
          </select>
        </label>
        <ModelFilter filters={filters} models={rows} />
        <KeyFilter filters={filters} keys={keys.data} />
        <label className="inline">
          Day (UTC)
          <input name="day" type="date" defaultValue={filters.get('day')} />
        </label>
        <label className="inline">
          Request
          <input
            name="request_id"
            defaultValue={filters.get('request_id')}
            maxLength={64}
            placeholder="id of an error"
          />
        </label>
        <button type="submit">Search</button>
      </form>
      {calls.error && <Failure error={calls.error} onRetry={() => void calls.refetch()} />}
      {calls.data !== undefined && rows.length === 0 && !calls.hasNextPage && (
        <p className="empty">There is no such call.</p>
      )}
      {rows.length > 0 && (
        <Table
          caption="Calls of models"
          isCaptionHidden
          columns={['Time', 'Kind', 'Model', 'Key', 'Status', 'Tokens', 'Cost', 'First word', 'Whole', 'Request']}
        >
          {rows.map((one) => (
            <CallRow key={one.id} one={one} keyName={keyNameOf(one.api_key_id, keys.data)} />
          ))}
        </Table>
      )}
      {calls.hasNextPage && (
        <button type="button" disabled={calls.isFetchingNextPage} onClick={() => void calls.fetchNextPage()}>
          Earlier calls
        </button>
      )}
    </>
  );
};
