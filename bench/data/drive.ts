import { Client } from 'undici';

/** One call of the data API. */
export interface Call {
  readonly key: string;
  readonly path: string;
  /** The name under which its latency is filed. */
  readonly group: string;
}

export interface Driven {
  /** Milliseconds by group, of the answers that were right. */
  readonly latencies: ReadonlyMap<string, readonly number[]>;
  readonly errors: number;
  readonly firstError: string | null;
}

export interface DrivePlan {
  readonly url: string;
  readonly callers: number;
  readonly seconds: number;
  /** Between two calls of one caller. */
  readonly pauseMs?: number;
  readonly next: () => Call;
}

/** Callers with keys of many projects: each has one kept-alive connection and one request at a time. */
export const drive = async ({ url, callers, seconds, pauseMs = 0, next }: DrivePlan): Promise<Driven> => {
  const latencies = new Map<string, number[]>();
  const timesOf = (group: string): number[] => {
    const times = latencies.get(group) ?? [];
    latencies.set(group, times);
    return times;
  };
  let errors = 0;
  let firstError: string | null = null;
  const until = performance.now() + seconds * 1000;
  const ask = async (client: Client): Promise<void> => {
    const { key, path, group } = next();
    const began = performance.now();
    const { statusCode, body } = await client.request({ method: 'GET', path, headers: { apikey: key } });
    const text = await body.text();
    if (statusCode === 200) timesOf(group).push(performance.now() - began);
    else {
      errors += 1;
      firstError ??= `${statusCode} ${text.slice(0, 500)}`;
    }
  };
  const call = async (): Promise<void> => {
    const client = new Client(url);
    while (performance.now() < until) {
      await ask(client);
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    await client.close();
  };
  await Promise.all(Array.from({ length: callers }, call));
  return { latencies, errors, firstError };
};
