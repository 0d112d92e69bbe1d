import test from 'ava';
import { type Egress, createEgress } from '#lib/egress.ts';
import { egressCases } from '#test/support/egress-cases.ts';
import { fetchService } from '#workers/services/fetch/service.ts';
import { CallFault } from '#workers/runtimes/runtime.ts';

const opened: Egress[] = [];

test.after.always(() => Promise.all(opened.map((egress) => egress.close())));

const refusals = /may not be reached|not a URL|Only addresses that begin|must not hold a user name/;

egressCases(test, {
  what: 'fetch',
  takesUrls: true,
  takesNames: true,
  make: (settings) => {
    const egress = createEgress(settings);
    opened.push(egress);
    let id = 0;
    return async ({ url }) => {
      const { answers, close } = fetchService({ egress })({
        projectId: 'p',
        timeoutMs: 5000,
        signal: new AbortController().signal,
      });
      try {
        id += 1;
        await answers['fetch']?.({ id, url, method: 'GET', headers: [], body: null, redirect: 'follow' });
        return 'reached';
      } catch (error) {
        if (error instanceof CallFault && error.name === 'TypeError' && refusals.test(error.message)) return 'refused';
        throw error;
      } finally {
        await close();
      }
    };
  },
});
