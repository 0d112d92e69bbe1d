import test from 'ava';
import { connect } from 'node:net';
import { once } from 'node:events';
import { fetch as undiciFetch } from 'undici';
import { type Egress, type EgressOptions, createEgress } from '#lib/egress.ts';
import { EgressRefused } from '#lib/egress/failures.ts';
import { type EgressCall, egressCases } from '#test/support/egress-cases.ts';

const made: Egress[] = [];
test.after.always(() => Promise.all(made.map((egress) => egress.close())));

const egressWith = (settings: EgressOptions): Egress => {
  const egress = createEgress(settings);
  made.push(egress);
  return egress;
};

const refusedOr =
  (call: (...args: Parameters<EgressCall>) => Promise<unknown>): EgressCall =>
  async (target) => {
    try {
      await call(target);
      return 'reached';
    } catch (error) {
      if (error instanceof EgressRefused) return 'refused';
      if (error instanceof Error && error.cause instanceof EgressRefused) return 'refused';
      throw error;
    }
  };

for (const user of ['platform', 'function'] as const) {
  egressCases(test, {
    what: `fetch for a ${user}`,
    takesUrls: true,
    takesNames: true,
    make: (settings) => {
      const egress = egressWith(settings);
      return refusedOr(({ url }) => egress.fetch(url, { for: user, timeoutMs: 20_000, maxBytes: 100 }));
    },
  });
}

// Saving sees forms only, so that names are left to the connection.
egressCases(test, {
  what: 'a check when saving',
  takesUrls: true,
  takesNames: false,
  make: (settings) => {
    const egress = egressWith(settings);
    return refusedOr(({ url }) =>
      Promise.try(() => egress.check(url)).then((checked) =>
        undiciFetch(checked, { dispatcher: egress.dispatcher('platform') }),
      ),
    );
  },
});

egressCases(test, {
  what: 'the dispatcher',
  takesUrls: false,
  takesNames: true,
  make: (settings) => {
    const egress = egressWith(settings);
    return refusedOr(async ({ url }) => {
      if (!URL.canParse(url)) throw new EgressRefused('The address is not a URL.');
      await undiciFetch(url, { dispatcher: egress.dispatcher('platform') });
    });
  },
});

egressCases(test, {
  what: 'a socket',
  takesUrls: false,
  takesNames: true,
  make: (settings) => {
    const egress = egressWith(settings);
    return refusedOr(async ({ host, port }) => {
      const [first] = await egress.lookup(host);
      const socket = connect({ host: first?.address ?? '', port });
      await once(socket, 'connect');
      socket.destroy();
    });
  },
});
