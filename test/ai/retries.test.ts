import test from 'ava';
import { withRetries } from '#domain/ai/gateway/faults.ts';
import { ProviderFault } from '#domain/ai/providers/dialect.ts';
import { connectionFault } from '#domain/ai/providers/transport.ts';

const nobodyLeaves = { aborted: false, addEventListener: () => undefined, removeEventListener: () => undefined };

const triesOf = async (fault: ProviderFault): Promise<number> => {
  let tries = 0;
  const attempt = (): Promise<never> => {
    tries += 1;
    return Promise.reject(fault);
  };
  await withRetries(attempt, nobodyLeaves).catch(() => undefined);
  return tries;
};

for (const code of ['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT', 'ECONNREFUSED', 'EHOSTUNREACH']) {
  test(`a connection that is not made (${code}) is tried twice more`, async (t) => {
    t.is(await triesOf(connectionFault(Object.assign(new Error('no connection'), { code }), false)), 3);
  });
}

test('a provider that has the request and says nothing is not asked again', async (t) => {
  t.is(await triesOf(new ProviderFault('timeout', 'silence')), 1);
});
