import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Failure } from '../../components/failure.tsx';
import { Time } from '../../components/time.tsx';
import { keyNameOf, useKeys } from './call-filters.tsx';
import { statusClass, statusTexts } from './calls.tsx';
import { nanoUsdText } from './money.ts';

type Call = Operations['GET /projects/{project_id}/ai/calls/{call_id}']['answer'];

const Facts = ({ facts }: { readonly facts: readonly (readonly [string, ReactNode])[] }) => (
  <dl className="facts">
    {facts.map(([name, value]) => (
      <div key={name} className="fact">
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

const countText = (count: number | null): string => (count === null ? '–' : count.toLocaleString('en'));
const msText = (ms: number | null): string => (ms === null ? '–' : `${countText(ms)} ms`);

const Request = ({ one }: { readonly one: Call }) => {
  const keys = useKeys();
  const details = one.prompt_tokens_details;
  return (
    <section className="panel" aria-label="Request">
      <h2>Request</h2>
      <Facts
        facts={[
          ['Model', <bdi key="model">{`${one.provider}/${one.model}`}</bdi>],
          ['Kind', one.kind],
          ['Key', <bdi key="key">{keyNameOf(one.api_key_id, keys.data)}</bdi>],
          ['Began', <Time key="began" at={one.created_at} />],
          ['Tokens', countText(one.prompt_tokens)],
          ['Read from the cache', countText(details?.cached_tokens ?? null)],
          ['Written to the cache', countText(details?.cache_write_tokens ?? null)],
        ]}
      />
    </section>
  );
};

const Answer = ({ one }: { readonly one: Call }) => (
  <section className="panel" aria-label="Answer">
    <h2>Answer</h2>
    {one.error_code !== null && (
      <p className="bad">
        <code>{one.error_code}</code> <bdi>{one.error_message}</bdi>
      </p>
    )}
    <Facts
      facts={[
        ['First word', msText(one.ttft_ms)],
        ['Whole', msText(one.latency_ms)],
        ['Tokens', countText(one.completion_tokens)],
        ['Thoughts', countText(one.completion_tokens_details?.reasoning_tokens ?? null)],
        ['Counted by', one.tokens_source === null ? '–' : one.tokens_source === 'reported' ? 'the provider' : 'plinth'],
        ['Cost', one.cost_nano_usd === null ? 'not known: the model has no price' : nanoUsdText(one.cost_nano_usd)],
        ['Service tier', one.service_tier ?? '–'],
        ['Asked again', one.retries === 0 ? 'no' : `${one.retries} ${one.retries === 1 ? 'time' : 'times'}`],
      ]}
    />
  </section>
);

/** One call of a model: what is kept of the request and of the answer, side by side. */
export const AiCallPage = ({ call: id }: { readonly call: string }) => {
  const { project } = useProject();
  const base = `/projects/${project.id}`;
  const found = useQuery({
    queryKey: ['ai-call', id],
    queryFn: () =>
      call('GET /projects/{project_id}/ai/calls/{call_id}', { params: { project_id: project.id, call_id: id } }),
    refetchInterval: ({ state }) => (state.data?.status === 'open' ? 2000 : false),
  });
  if (found.error) return <Failure error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <p className="loading">Loading…</p>;
  const { data } = found;
  return (
    <>
      <p>
        <Link href={`${base}/ai?tab=calls`}>All calls</Link>
      </p>
      <h1>
        <bdi>
          {data.provider}/{data.model}
        </bdi>
      </h1>
      <p role="status">
        <span className={`tag ${statusClass(data.status)}`}>{statusTexts[data.status]}</span>
      </p>
      <Copyable label="Request" text={data.request_id} />
      <p>
        <Link href={`${base}/logs?request_id=${encodeURIComponent(data.request_id)}`}>
          Everything about it in the logs
        </Link>
      </p>
      <div className="sides">
        <Request one={data} />
        <Answer one={data} />
      </div>
      <p className="muted">The texts of the request and of the answer are not kept.</p>
    </>
  );
};
