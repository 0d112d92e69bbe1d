import { type JWK, exportJWK, generateKeyPair } from 'jose';
import { createIssuers } from '#domain/oauth/issuers.ts';
import type { OAuthDeps } from '#domain/oauth/oauth.ts';
import type { ProviderPages } from '#domain/oauth/provider.ts';
import type { Project } from '#domain/projects/store.ts';

/** A process that makes the providers of many projects; the database is left out, so that what is measured is theirs. */
const keySetCount = 20;

const newKeySet = async (): Promise<JWK[]> =>
  Promise.all(
    (['RS256', 'ES256'] as const).map(async (alg) => {
      const { privateKey } = await generateKeyPair(alg, { extractable: true });
      return { ...(await exportJWK(privateKey)), kid: crypto.randomUUID(), alg, use: 'sig' };
    }),
  );

const keySets = await Promise.all(Array.from({ length: keySetCount }, newKeySet));
let made = 0;

const deps = {
  endUsers: {
    settings: { of: () => Promise.resolve({ session: { idle_s: 3600, absolute_s: 7200, single: false } }) },
    keys: { privateJwks: () => Promise.resolve(structuredClone(keySets[(made += 1) % keySetCount])) },
    sealer: () => ({}),
  },
} as unknown as OAuthDeps;

const issuers = createIssuers(deps, () => ({}) as ProviderPages);

/** Makes so many. @returns the time of each, in ms */
const make = async (count: number): Promise<number[]> => {
  const latencies: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const id = crypto.randomUUID();
    const began = performance.now();
    await issuers.of({
      project: { id, ref: 'x', name: 'x' } as Project,
      url: `http://127.0.0.1/oauth/${id}`,
      audience: 'http://127.0.0.1/p/x',
    });
    latencies.push(performance.now() - began);
  }
  return latencies;
};

/** Garbage is collected first: V8 leaves as much of it as it likes while memory is plenty. */
const heapMb = (): number => {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / 1024 / 1024;
};

process.on('message', (message) => {
  void make(message === 'warm' ? 5 : Number(message)).then((latencies) =>
    process.send?.({ latencies, heapMb: heapMb() }),
  );
});
process.send?.({ type: 'ready', port: 0 });
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
