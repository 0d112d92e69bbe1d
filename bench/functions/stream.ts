import { type BenchUser, projectBody, signUp } from '../client.ts';
import { type Bench, type Benchmark, byTurns, digits, median, ms, spread } from '../harness.ts';
import { requiredIn } from '../settings.ts';

const noOp = 'export const handler = () => null;';

const mb = 1_000_000;
const longBytes = 60 * mb;

/** One small chunk, or 60 MB in chunks of 128 KB. */
const streaming = `export const handler = (_, { request }) => {
  let left = request.query.get('long') ? ${longBytes} : 10;
  return new Response(new ReadableStream({
    pull(controller) {
      if (left <= 0) return controller.close();
      controller.enqueue(new Uint8Array(Math.min(left, 131072)));
      left -= 131072;
    },
  }));
}`;

const made = async <T>(url: string, headers: BenchUser['headers'], body: object): Promise<T> => {
  const answer = await fetch(url, { method: 'POST', headers: { ...headers }, body: JSON.stringify(body) });
  if (answer.status !== 201) throw new Error(`POST ${url} answered ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as T;
};

/** Calls a function by key and reads until its first bytes have come, or all. */
const call = async (url: string, key: string): Promise<{ readonly firstMs: number; readonly bytes: number }> => {
  const began = performance.now();
  const answer = await fetch(url, { headers: { apikey: key } });
  let firstMs = Number.NaN;
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    if (bytes === 0) firstMs = performance.now() - began;
    bytes += (chunk as Uint8Array).length;
  }
  if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`);
  return { firstMs, bytes };
};

const callsInRound = 100;
const rounds = 6;

const medianOf = async (url: string, key: string): Promise<number> => {
  const times = [];
  for (let n = 0; n < callsInRound; n += 1) times.push((await call(url, key)).firstMs);
  return median(times);
};

const scene = async (bench: Bench) => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const { headers } = await signUp(url);
  const { id, api_key: key } = await made<{ id: string; api_key: string }>(`${url}/projects`, headers, projectBody());
  const deployed = async (name: string, code: string): Promise<string> => {
    const body = { name, language: 'javascript', code, timeout_ms: 60_000 };
    const { slug } = await made<{ slug: string }>(`${url}/projects/${id}/functions`, headers, body);
    return `${url}/api/functions/${slug}`;
  };
  return { key, plain: await deployed('plain', noOp), streamed: await deployed('streamed', streaming) };
};

export const functionStream: Benchmark = {
  name: 'functions/stream',
  run: async (bench) => {
    const { key, plain, streamed } = await scene(bench);
    await medianOf(plain, key);
    await medianOf(streamed, key);
    const pairs = await byTurns(
      rounds,
      () => medianOf(streamed, key),
      () => medianOf(plain, key),
    );
    const [ours, floor] = [median(pairs.map((pair) => pair.ours)), median(pairs.map((pair) => pair.floor))];
    const rates = [];
    for (let n = 0; n < 3; n += 1) {
      const began = performance.now();
      const { bytes } = await call(`${streamed}?long=1`, key);
      if (bytes !== longBytes) throw new Error(`${bytes} of ${longBytes} bytes came`);
      rates.push(bytes / mb / ((performance.now() - began) / 1000));
    }
    return [
      {
        name: 'first byte of a streamed answer, the caller’s wait, p50, 1 caller',
        ours: ms(ours),
        floor: ms(floor),
        ratio: ours / floor,
        target: { of: 'ratio', atMost: 1.5 },
        notes: [
          `floor: the whole answer of a no-op; rounds ${pairs.map((pair) => digits(pair.ours / pair.floor)).join(', ')}`,
        ],
      },
      {
        name: 'a streamed answer of 60 MB through one API process',
        ours: { value: median(rates), unit: 'MB/s' },
        target: { of: 'ours', atLeast: 20 },
        notes: [`three answers one after the other: ${spread(rates)} MB/s`],
      },
    ];
  },
};
