import {
  type Bench,
  type Benchmark,
  type Row,
  allRight,
  digits,
  median,
  ms,
  perSecond,
  percentile,
} from '../harness.ts';
import type { Extent, LoadResult } from '../load.ts';
import type { Server } from '../servers.ts';
import { startPeer } from './peer.ts';
import { type AiScene, type Pace, chatBody, startAiScene } from './scene.ts';

/** The target of the calls: the provider itself, us, or the peer before it. */
type Who = 'direct' | 'ours' | 'peer';
const everyone = ['direct', 'ours', 'peer'] as const satisfies readonly Who[];

interface Side {
  readonly server: Server;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface Sides {
  readonly scene: AiScene;
  readonly of: (who: Who, pace: Pace) => Side;
}

const startSides = async (bench: Bench): Promise<Sides> => {
  const scene = await startAiScene(bench);
  const peer = await startPeer(bench);
  const { api, upstream, project } = scene;
  const ours = { server: api, path: '/v1/chat/completions', headers: { authorization: `Bearer ${project.key}` } };
  const authorization = 'Bearer sk-bench';
  const of: Sides['of'] = (who, pace) => {
    const base = `${upstream.url}/${pace}/v1`;
    if (who === 'ours') return ours;
    if (who === 'direct') return { server: upstream, path: `/${pace}/v1/chat/completions`, headers: { authorization } };
    const headers = { authorization, 'x-portkey-provider': 'openai', 'x-portkey-custom-host': base };
    return { server: peer, path: '/v1/chat/completions', headers };
  };
  return { scene, of };
};

interface Plan {
  readonly pace: Pace;
  readonly stream: boolean;
  readonly callers: number;
  readonly rounds: number;
  /** Before each round; not counted. */
  readonly warmUp: Extent;
  readonly extent: Extent;
}

type Results = Readonly<Record<Who, LoadResult[]>>;

const measure = async (
  bench: Bench,
  sides: Sides,
  { pace, stream, callers, rounds, warmUp, extent }: Plan,
): Promise<Results> => {
  await sides.scene.setPace(pace);
  const results: Results = { direct: [], ours: [], peer: [] };
  const load = async (who: Who): Promise<void> => {
    const { server, path, headers } = sides.of(who, pace);
    const plan = {
      url: server.url,
      headers: { 'content-type': 'application/json', ...headers },
      requests: [{ method: 'POST' as const, path, body: chatBody(stream) }],
      callers,
      warmUp,
      extent,
      status: 200,
      mustHold: stream ? '[DONE]' : '"usage"',
      pid: server.pid,
    };
    results[who].push(allRight(await bench.servers.load(plan)));
  };
  for (let round = 0; round < rounds; round += 1) {
    for (const who of round % 2 === 0 ? everyone : everyone.toReversed()) await load(who);
  }
  return results;
};

type Times = (result: LoadResult) => readonly number[];

const whole: Times = ({ latencies }) => latencies;
const first: Times = ({ firsts }) => firsts;

/** The overhead of one side over a direct call: the difference of the percentiles over all rounds. */
const added = (results: Results, who: Who, times: Times, share: number): number =>
  percentile(results[who].flatMap(times), share) - percentile(results.direct.flatMap(times), share);

interface AddedRow {
  readonly name: string;
  readonly times: Times;
  readonly share: number;
  readonly atMost: number;
}

const addedRow = (results: Results, { name, times, share, atMost }: AddedRow): Row => {
  const [ours, peer] = [added(results, 'ours', times, share), added(results, 'peer', times, share)];
  const direct = percentile(results.direct.flatMap(times), share);
  return {
    name,
    ours: ms(ours),
    floor: ms(peer),
    ratio: ours / peer,
    target: { of: 'ratio', atMost },
    notes: [`a direct call takes ${digits(direct)} ms; floor: what Portkey’s gateway adds`],
  };
};

const rate = ({ latencies, seconds }: LoadResult): number => latencies.length / seconds;
const cpuMicros = ({ latencies, cpuSeconds }: LoadResult): number => (cpuSeconds * 1e6) / latencies.length;

const rateRow = (name: string, results: Results, atLeast: number): Row => {
  const [ours, peer] = [median(results.ours.map(rate)), median(results.peer.map(rate))];
  return {
    name,
    ours: perSecond(ours),
    floor: perSecond(peer),
    ratio: ours / peer,
    target: { of: 'ratio', atLeast },
    notes: [`the provider itself answers ${digits(median(results.direct.map(rate)))}/s; floor: Portkey’s gateway`],
  };
};

const cpuRow = (name: string, results: Results): Row => {
  const [ours, peer] = [median(results.ours.map(cpuMicros)), median(results.peer.map(cpuMicros))];
  return {
    name,
    ours: { value: ours, unit: 'µs' },
    floor: { value: peer, unit: 'µs' },
    ratio: ours / peer,
    target: { of: 'ratio', atMost: 0.4 },
    notes: ['of the gateway’s process, all threads, user and kernel; floor: Portkey’s gateway'],
  };
};

// Measured after the rounds of sixteen: at 50 requests/s nobody's code would be compiled for a minute.
const oneCaller = {
  pace: 'slow',
  callers: 1,
  rounds: 3,
  warmUp: { requests: 20 },
  extent: { requests: 200 },
} as const;
const sixteen = { pace: 'fast', callers: 16, rounds: 3, warmUp: { seconds: 2 }, extent: { seconds: 3 } } as const;

/** A chat through the API, key, rate limit, budget and record included, against the same through Portkey's gateway. */
export const chatGateway: Benchmark = {
  name: 'ai/chat',
  run: async (bench) => {
    const sides = await startSides(bench);
    const fast = await measure(bench, sides, { ...sixteen, stream: false });
    const slow = await measure(bench, sides, { ...oneCaller, stream: false });
    return [
      addedRow(slow, { name: 'AI: added to a direct call, p50', times: whole, share: 0.5, atMost: 0.5 }),
      addedRow(slow, { name: 'AI: added to a direct call, p99', times: whole, share: 0.99, atMost: 0.6 }),
      rateRow('AI: chats of 16 callers', fast, 2.5),
      cpuRow('AI: CPU of a chat', fast),
    ];
  },
};

/** The same as a stream of 100 tokens. */
export const streamGateway: Benchmark = {
  name: 'ai/stream',
  run: async (bench) => {
    const sides = await startSides(bench);
    const fast = await measure(bench, sides, { ...sixteen, stream: true });
    const slow = await measure(bench, sides, { ...oneCaller, stream: true });
    return [
      addedRow(slow, { name: 'AI: added to the first token of a stream, p50', times: first, share: 0.5, atMost: 0.1 }),
      rateRow('AI: streams of 100 tokens, 16 callers', fast, 3),
      cpuRow('AI: CPU of a stream of 100 tokens', fast),
    ];
  },
};
