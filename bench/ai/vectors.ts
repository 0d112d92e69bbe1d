import { pino } from 'pino';
import type { AiCaller, Gateway } from '#domain/ai/gateway/types.ts';
import { openPlatform } from '#domain/platform.ts';
import { findProject } from '#domain/projects/store.ts';
import { type Found, searchDocuments, upsertDocuments } from '#domain/vectors/vectors.ts';
import { loadConfig } from '#lib/config.ts';
import { createProject, signUp } from '../client.ts';
import { apiSpec } from '../data/scene.ts';
import { type Bench, type Benchmark, type Row, count, digits, median, ms, perSecond, spread } from '../harness.ts';
import { type Cloud, cloudNote, makeCloud, nearestTo } from './cloud.ts';

const documents = 50_000;
const requestSize = 1000;
/** Requests that write at the same time. */
const writers = 2;
const early = 10_000;
const queries = 100;
const nearest = 10;
const collection = 'bench';

/** A provider that takes no time: a text is the number of its vector. */
const instantGateway = ({ vectors, queries: requested, dimensions }: Cloud): Pick<Gateway, 'embed' | 'resolve'> => ({
  embed: (_caller, { model, input }) =>
    Promise.resolve({
      provider: 'openai',
      latencyMs: 0,
      usage: { prompt_tokens: 0, completion_tokens: 0 },
      tokensSource: 'reported',
      model,
      vectors: input.map((text) => {
        const [kind, number = '0'] = String(text).split(' ');
        return Array.from((kind === 'query' ? requested : vectors)[Number(number)] ?? []);
      }),
      dimensions,
    }),
  resolve: (_project, model) => Promise.resolve({ provider: 'openai', model }),
});

interface Scene {
  readonly cloud: Cloud;
  readonly upsert: (from: number) => Promise<unknown>;
  readonly search: (query: string, limit: number, filter: Record<string, unknown> | null) => Promise<readonly Found[]>;
}

const makeProject = async (bench: Bench, dimensions: number): Promise<string> => {
  const api = await bench.servers.start(apiSpec('vectors'));
  const user = await signUp(api.url);
  const id = await createProject(api.url, user);
  const body = JSON.stringify({ name: collection, dimensions });
  const url = `${api.url}/projects/${id}/ai/vectors/collections`;
  const made = await fetch(url, { method: 'POST', headers: user.headers, body });
  if (!made.ok) throw new Error(`POST ${url} answered ${made.status}: ${await made.text()}`);
  return id;
};

/** One of a hundred is in a group, 7 of all are rare. */
const documentAt = (number: number) => ({
  id: `document-${number}`,
  content: `document ${number} ${'of the words that a paragraph has '.repeat(10)}`,
  metadata: JSON.stringify({ group: number % 100, ...(number % 7200 === 0 && { rare: true }) }),
});

const onScene = async <T>(bench: Bench, work: (scene: Scene) => Promise<T>): Promise<T> => {
  const cloud = makeCloud(documents, queries);
  const projectId = await makeProject(bench, cloud.dimensions);
  const platform = await openPlatform(loadConfig(bench.env), pino({ level: 'silent' }));
  try {
    const project = await findProject(platform.db, projectId);
    if (project === undefined) throw new Error('the project is not there');
    const deps = { tenantDb: platform.projects.tenantDb, gateway: instantGateway(cloud) };
    const caller: AiCaller = { project, kind: 'vectors', requestId: 'bench', signal: bench.signal };
    return await work({
      cloud,
      upsert: (from) => {
        const batch = Array.from({ length: requestSize }, (_, index) => documentAt(from + index));
        return upsertDocuments(deps, caller, { collection, model: 'embed', documents: batch });
      },
      search: (query, limit, filter) =>
        searchDocuments(deps, caller, { collection, query, limit, filter: filter && JSON.stringify(filter) }),
    });
  } finally {
    await platform.close();
  }
};

/** Documents a second, of the first ten thousand and of all. */
const measureUpsert = async ({ upsert }: Scene): Promise<{ early: number; all: number }> => {
  const began = performance.now();
  let [next, done, earlyMs] = [0, 0, 0];
  const worker = async (): Promise<void> => {
    while (next < documents) {
      const from = next;
      next += requestSize;
      await upsert(from);
      done += requestSize;
      if (done === early) earlyMs = performance.now() - began;
    }
  };
  await Promise.all(Array.from({ length: writers }, worker));
  return { early: early / (earlyMs / 1000), all: documents / ((performance.now() - began) / 1000) };
};

const measureRecall = async ({ cloud, search }: Scene): Promise<{ recall: number; times: number[] }> => {
  let found = 0;
  const times: number[] = [];
  for (const [number, query] of cloud.queries.entries()) {
    const exact = new Set(nearestTo(query, cloud.vectors, nearest).map((index) => `document-${index}`));
    const began = performance.now();
    const results = await search(`query ${number}`, nearest, null);
    times.push(performance.now() - began);
    found += results.filter(({ id }) => exact.has(id)).length;
  }
  return { recall: found / (queries * nearest), times };
};

const filters = [
  { filter: { rare: true }, matches: Math.ceil(documents / 7200) },
  { filter: { group: 3 }, matches: documents / 100 },
  { filter: { group: 7200 }, matches: 0 },
] as const;

/** The share of filtered searches that found min(limit, matches). */
const measureFiltered = async ({ search }: Scene): Promise<{ full: number; times: number[] }> => {
  let [full, requested] = [0, 0];
  const times: number[] = [];
  for (let number = 0; number < queries; number += 1) {
    for (const { filter, matches } of filters) {
      const limit = number % 2 === 0 ? nearest : 200;
      const began = performance.now();
      const results = await search(`query ${number}`, limit, filter);
      times.push(performance.now() - began);
      requested += 1;
      if (results.length === Math.min(limit, matches)) full += 1;
    }
  }
  return { full: full / requested, times };
};

const rowsOf = async (scene: Scene): Promise<readonly Row[]> => {
  const written = await measureUpsert(scene);
  const { recall, times } = await measureRecall(scene);
  const filtered = await measureFiltered(scene);
  return [
    {
      name: 'vectors: upsert without the provider’s time',
      ours: perSecond(written.early),
      target: { of: 'ours', atLeast: 2000 },
      notes: [
        `the first ${digits(early)} documents of 384 dimensions, ${writers} requests of ${digits(requestSize)} at a time`,
        `all ${digits(documents)}: ${digits(written.all)}/s; the provider answers in the same process, at once`,
      ],
    },
    {
      name: 'vectors: recall@10 of 50,000 × 384',
      ours: count(recall),
      target: { of: 'ours', atLeast: 0.95 },
      notes: [cloudNote, `${queries} queries against every vector’s cosine; a search takes ${spread(times)} ms`],
    },
    {
      name: 'vectors: filtered searches that are full',
      ours: count(filtered.full),
      target: { of: 'ours', atLeast: 1 },
      notes: ['none, 7 and 500 of 50,000 fit; limit 10 and 200'],
    },
    { name: 'vectors: a filtered search', ours: ms(median(filtered.times)), notes: [spread(filtered.times)] },
  ];
};

/** Measures the size and recall of a collection (issue 7's figures). */
export const vectorStore: Benchmark = { name: 'ai/vectors', run: (bench) => onScene(bench, rowsOf) };
