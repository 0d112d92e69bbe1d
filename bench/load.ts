import { Client } from 'undici';
import { cpuSeconds } from './proc.ts';

export interface LoadRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: string;
}

/** How long to go on, over all callers. */
export type Extent = { readonly requests: number } | { readonly seconds: number };

/** The plan of a load process: so many callers, each with one kept-alive connection and one request at a time. */
export interface LoadPlan {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent in this order, over and over. */
  readonly requests: readonly LoadRequest[];
  readonly callers: number;
  /** Not counted. */
  readonly warmUp: Extent;
  readonly extent: Extent;
  readonly status: number;
  /** Text that each answer must contain. */
  readonly mustHold?: string;
  /** A number that each JSON answer holds at its top, collected beside the latency. */
  readonly field?: string;
  /** The process whose CPU time is read around the counted part. */
  readonly pid?: number;
}

export interface LoadResult {
  /** The counted part. */
  readonly seconds: number;
  /** Milliseconds, in order of completion; without the answers that were wrong. */
  readonly latencies: readonly number[];
  /** To the first byte of each body, as long as `latencies`. */
  readonly firsts: readonly number[];
  /** As long as `latencies`; empty without `field`. */
  readonly values: readonly number[];
  /** Answers of another status or without the text. */
  readonly errors: number;
  readonly firstError: string | null;
  /** CPU time of `pid` over the counted part. */
  readonly cpuSeconds: number;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  /** When the first byte of the body came, by `performance.now`. */
  readonly firstAt: number;
}

// The dispatch interface costs the driver a third less than `request`, and the driver shares the machine.
const send = (client: Client, { method, path, body }: LoadRequest, headers: Record<string, string>): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let status = 0;
    let firstAt = 0;
    client.dispatch(
      { method, path, headers, body: body ?? null },
      {
        onRequestStart: () => undefined,
        onResponseStart: (_controller, code) => {
          status = code;
        },
        onResponseData: (_controller, chunk) => {
          if (chunks.length === 0) firstAt = performance.now();
          chunks.push(chunk);
        },
        onResponseEnd: () => resolve({ status, firstAt, text: Buffer.concat(chunks).toString() }),
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });

interface Tally {
  readonly latencies: number[];
  readonly firsts: number[];
  readonly values: number[];
  errors: number;
  firstError: string | null;
}

const isRight = ({ status, text }: Answer, plan: LoadPlan): boolean =>
  status === plan.status && (plan.mustHold === undefined || text.includes(plan.mustHold));

const note = (tally: Tally, answer: Answer, began: number, plan: LoadPlan): void => {
  if (!isRight(answer, plan)) {
    tally.errors += 1;
    tally.firstError ??= `${answer.status} ${answer.text.slice(0, 500)}`;
    return;
  }
  tally.latencies.push(performance.now() - began);
  tally.firsts.push(answer.firstAt - began);
  if (plan.field !== undefined)
    tally.values.push(Number((JSON.parse(answer.text) as Record<string, unknown>)[plan.field]));
};

/** Takes the place of the next request, until the extent is used up. */
const turnsOf = (extent: Extent): (() => boolean) => {
  if ('seconds' in extent) {
    const until = performance.now() + extent.seconds * 1000;
    return () => performance.now() < until;
  }
  let left = extent.requests;
  return () => (left -= 1) >= 0;
};

const drive = async (
  clients: readonly Client[],
  plan: LoadPlan,
  extent: Extent,
  next: () => LoadRequest,
): Promise<Tally> => {
  const tally: Tally = { latencies: [], firsts: [], values: [], errors: 0, firstError: null };
  const headers = { ...plan.headers };
  const takeTurn = turnsOf(extent);
  const call = async (client: Client): Promise<void> => {
    while (takeTurn()) {
      const began = performance.now();
      const answer = await send(client, next(), headers);
      note(tally, answer, began, plan);
    }
  };
  await Promise.all(clients.map(call));
  return tally;
};

const cyclic = (requests: readonly LoadRequest[]): (() => LoadRequest) => {
  let sent = 0;
  return () => {
    const request = requests[sent % requests.length];
    if (request === undefined) throw new Error('a load plan without requests');
    sent += 1;
    return request;
  };
};

const run = async (plan: LoadPlan): Promise<LoadResult> => {
  const clients = Array.from({ length: plan.callers }, () => new Client(plan.url));
  const next = cyclic(plan.requests);
  const cpu = (): number => (plan.pid === undefined ? 0 : cpuSeconds(plan.pid));
  await drive(clients, plan, plan.warmUp, next);
  const [cpuBefore, began] = [cpu(), performance.now()];
  const tally = await drive(clients, plan, plan.extent, next);
  const passed = (performance.now() - began) / 1000;
  const used = cpu() - cpuBefore;
  await Promise.all(clients.map((client) => client.close()));
  return { ...tally, seconds: passed, cpuSeconds: used };
};

// Run as a process of its own by `Servers.load`; elsewhere only its types are wanted.
if (import.meta.main) {
  process.once('disconnect', () => process.exit(0));
  process.once('message', (plan) => {
    void run(plan as LoadPlan).then((result) => process.send?.(result));
  });
}
