import test from 'ava';
import { type Egress, createEgress } from '#lib/egress.ts';
import { EgressFailed } from '#lib/egress/failures.ts';
import { egressCases } from '#test/support/egress-cases.ts';
import { runHttpTarget } from '#workers/processors/cron-fire.ts';

const opened: Egress[] = [];

test.after.always(() => Promise.all(opened.map((egress) => egress.close())));

egressCases(test, {
  what: 'a schedule',
  takesUrls: true,
  takesNames: true,
  make: (settings) => {
    const egress = createEgress(settings);
    opened.push(egress);
    return async ({ url }) => {
      const call = { url, payload: 'null', scheduleId: crypto.randomUUID(), runId: crypto.randomUUID() };
      const { status, error } = await runHttpTarget({ egress }, call, new AbortController().signal);
      if (status === 'succeeded' || error?.code === 'http_status') return 'reached';
      if (error?.code === 'egress_refused') return 'refused';
      throw new Error(error?.message);
    };
  },
});

test('a call may take 15 s', async (t) => {
  const requested: number[] = [];
  const egress: Pick<Egress, 'fetch'> = {
    fetch: (_url, { timeoutMs }) => {
      requested.push(timeoutMs);
      return Promise.reject(new EgressFailed('timeout', 'it took too long'));
    },
  };
  const call = { url: 'http://example.com/', payload: 'null', scheduleId: 's', runId: 'r' };
  const { error } = await runHttpTarget({ egress }, call, new AbortController().signal);
  t.deepEqual(requested, [15_000]);
  t.is(error?.code, 'http_timeout');
});
