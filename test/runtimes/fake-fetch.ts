import { CallFault, type RunServices } from '#workers/runtimes/runtime.ts';

interface FetchArgs {
  readonly id: number;
  readonly url: string;
  readonly method: string;
  readonly headers: [string, string][];
  readonly body: string | null;
  readonly redirect: 'follow' | 'manual' | 'error';
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

const failed = (error: unknown): CallFault => {
  const { cause } = error as { cause?: Error };
  return new CallFault('TypeError', `fetch failed: ${cause?.message ?? String(error)}`);
};

/** The calls of `fetch`, answered by Node's own. `seen` names them in their order. */
export function fakeFetch(seen: string[] = []): RunServices {
  const open = new Map<number, Reader>();
  const aborts = new Map<number, AbortController>();
  const answers: Record<string, (args: FetchArgs) => Promise<unknown>> = {
    fetch: async ({ id, url, method, headers, body, redirect }) => {
      const abort = new AbortController();
      aborts.set(id, abort);
      const sent = body === null ? null : Buffer.from(body, 'base64');
      const response = await fetch(url, { method, headers, body: sent, redirect, signal: abort.signal });
      const reader = response.body?.getReader();
      if (reader !== undefined) open.set(id, reader);
      const { status, statusText, redirected } = response;
      const hasBody = response.body !== null;
      return { status, statusText, redirected, headers: [...response.headers], url: response.url, hasBody };
    },
    'fetch.read': async ({ id }) => {
      const { done, value } = (await open.get(id)?.read()) ?? { done: true };
      return done || value === undefined ? { done: true } : { chunk: Buffer.from(value).toString('base64') };
    },
    'fetch.cancel': async ({ id }) => {
      aborts.get(id)?.abort();
      return null;
    },
  };
  return {
    call: async (op, args) => {
      seen.push(op);
      try {
        return JSON.stringify(await answers[op]?.(JSON.parse(args) as FetchArgs));
      } catch (error) {
        throw failed(error);
      }
    },
    close: async () => {
      for (const abort of aborts.values()) abort.abort();
    },
  };
}
