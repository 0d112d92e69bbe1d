import { type InProject, type Register, type Run, inProject, numberOption, textOption } from '../cli.ts';
import { usage } from '../errors.ts';
import { type ServerEvent, followEvents } from '../events.ts';
import { readUrl } from '../link.ts';
import { clean, cleanLine } from '../text.ts';

/** A delivery as the platform sends it to a webhook. */
interface Delivery {
  readonly id: string;
  readonly event: string;
  readonly replayed: boolean;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const receiverMs = 15_000;
const maxAtOnce = 4;
/** After an interruption so many come again; those that were forwarded are left out. */
const overlap = 50;
const maxRemembered = 5000;
const maxReplay = 100;

const makeSecret = (): string => `whsec_${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')}`;

const parsed = (data: string): Delivery | undefined => {
  try {
    const delivery = JSON.parse(data) as Delivery;
    return typeof delivery.id === 'string' && typeof delivery.body === 'string' ? delivery : undefined;
  } catch {
    return undefined;
  }
};

interface Answer {
  readonly status: number | null;
  readonly ms: number;
  readonly error: string | null;
}

const reasonOf = (error: unknown): string => {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  const code: unknown = typeof cause === 'object' && cause !== null ? Reflect.get(cause, 'code') : undefined;
  if (code === 'ECONNREFUSED') return 'nothing listens there';
  if (error instanceof Error && error.name === 'TimeoutError') return `no answer within ${receiverMs / 1000} s`;
  return typeof code === 'string' ? code : String(error instanceof Error ? error.message : error);
};

/** Sends a delivery on as it came: its signature holds for these bytes. */
const forward = async (url: string, { headers, body }: Delivery, signal: AbortSignal): Promise<Answer> => {
  const began = performance.now();
  const took = (): number => Math.round(performance.now() - began);
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers,
      body,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(receiverMs)]),
    });
    await response.arrayBuffer().catch(() => undefined);
    return { status: response.status, ms: took(), error: null };
  } catch (error) {
    return { status: null, ms: took(), error: reasonOf(error) };
  }
};

/** Work that goes on a few at a time, in its order. */
const fewAtOnce = (most: number): ((work: () => Promise<void>) => void) => {
  const waiting: (() => Promise<void>)[] = [];
  let running = 0;
  const next = (): void => {
    const work = running < most ? waiting.shift() : undefined;
    if (work === undefined) return;
    running += 1;
    void work().finally(() => {
      running -= 1;
      next();
    });
  };
  return (work) => {
    waiting.push(work);
    next();
  };
};

const show = ({ cli: { out } }: Run, { id, event, replayed }: Delivery, { status, ms, error }: Answer): void => {
  const outcome = status === null ? clean(error ?? '') : String(status);
  const isGood = status !== null && status >= 200 && status < 300;
  const text = `${isGood ? outcome : out.red(outcome)} ${ms} ms  ${cleanLine(event)}  ${out.dim(cleanLine(id))}${replayed ? ' (replayed)' : ''}`;
  out.line({ id, event, replayed, status, ms, error }, text);
};

interface Wanted {
  readonly url: string;
  readonly events: readonly string[];
  readonly filter: string | undefined;
  readonly secret: string;
  readonly replay: number;
}

const wantedOf = (run: Run): Wanted => {
  const url = textOption(run, 'forward');
  if (url === undefined || url.trim() === '')
    throw usage('Name the address with --forward: http://localhost:4000/hook.');
  const replay = numberOption(run, 'replay', 0);
  if (replay > maxReplay) throw usage(`--replay must be 0 to ${maxReplay}.`);
  const events = (textOption(run, 'events') ?? '*').split(',').map((name) => name.trim());
  // Without a scheme it is this machine's, as a developer means it.
  const address = url.includes('://') ? url : `http://${url}`;
  readUrl(address);
  return {
    url: address,
    events,
    filter: textOption(run, 'filter'),
    secret: textOption(run, 'secret') ?? makeSecret(),
    replay,
  };
};

/** Forwards each delivery once, also when it comes again after an interruption. */
const forwarderOf = (run: Run, { url }: Wanted): ((delivery: Delivery) => void) => {
  const seen = new Set<string>();
  const start = fewAtOnce(maxAtOnce);
  return (delivery) => {
    if (seen.has(delivery.id)) return;
    seen.add(delivery.id);
    const [oldest] = seen;
    if (seen.size > maxRemembered && oldest !== undefined) seen.delete(oldest);
    start(async () => {
      const answer = await forward(url, delivery, run.cli.signal);
      if (!run.cli.signal.aborted) show(run, delivery, answer);
    });
  };
};

const follow = async (run: Run, project: InProject, wanted: Wanted): Promise<void> => {
  const { out } = run.cli;
  const { events, filter, secret, replay } = wanted;
  const pass = forwarderOf(run, wanted);
  let isFirst = true;
  const on = ({ event, data }: ServerEvent): void => {
    if (event === 'ready') {
      if (isFirst) out.say(`Deliveries go to ${cleanLine(wanted.url)}, signed with ${secret}. Ctrl-C ends it.`);
      isFirst = false;
      return;
    }
    const delivery = event === 'delivery' ? parsed(data) : undefined;
    if (delivery) pass(delivery);
  };
  await followEvents({
    target: () => inProject(run),
    path: `${project.path}/webhooks/listen`,
    request: () => ({
      method: 'POST',
      body: { events, secret, replay: isFirst ? replay : overlap, ...(filter !== undefined && { filter }) },
    }),
    on,
    onReconnect: () => out.say('The platform does not answer; trying again …'),
  });
};

const listen = async (run: Run): Promise<void> => {
  const wanted = wantedOf(run);
  await follow(run, await inProject(run), wanted);
};

export const registerListen: Register = (program, act) => {
  program
    .command('listen')
    .description('forward the deliveries of webhooks to an address on this machine, until Ctrl-C')
    .option('-f, --forward <url>', 'where to, such as http://localhost:4000/hook')
    .option('-e, --events <names>', 'of these events, with commas between; `db.*` is a group', '*')
    .option('--filter <filter>', "only those that fit, such as data.status = 'paid'")
    .option('-n, --replay <number>', 'forward so many events of the past first', '0')
    .option('--secret <secret>', 'sign with it; left out, one is made and printed')
    .action(act(listen));
};
