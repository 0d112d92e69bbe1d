import { openPlatform } from '#domain/platform.ts';
import { type Config, loadConfig } from '#lib/config.ts';
import { createLog } from '#lib/log.ts';
import type { OpenServices } from '#workers/processors/function-invoke.ts';
import type { RunRequest, Runtime } from '#workers/runtimes/runtime.ts';
import { databaseService } from '#workers/services/database/service.ts';
import { servicesOf } from '#workers/services/services.ts';
import { createProject, signUp } from '../client.ts';
import {
  type Bench,
  type Benchmark,
  type Row,
  byTurns,
  digits,
  median,
  ms,
  perSecond,
  range,
  spread,
} from '../harness.ts';
import { requiredIn } from '../settings.ts';
import { callFresh } from './fresh.ts';
import { type BenchLanguage, benchLanguages } from './languages.ts';
import { type Call, expectAnswer, oneByOne, rateOf } from './measure.ts';

const rounds = 4;
const ourCalls = 300;
const freshCalls = 15;
const rateMs = 2000;
/** As many as the machine has processors; more make no fresh process faster. */
const callers = 2;
const firstCalls = 15;

const requestOf = (code: string, projectId: string): RunRequest => ({
  projectId,
  functionId: 'measured',
  version: 1,
  code,
  entryPoint: 'handler',
  payload: 'null',
  env: {},
  timeoutMs: 10_000,
  memoryMib: 128,
});

/** One run as the worker's processor does it. */
const runWith =
  (runtime: Runtime, request: RunRequest, answer: string, open: OpenServices): Call =>
  async () => {
    const services = open({
      projectId: request.projectId,
      timeoutMs: request.timeoutMs,
      signal: new AbortController().signal,
    });
    const { status, result, error } = await runtime.run(request, { services });
    await services.close();
    expectAnswer(result, answer, `${status} ${error?.message ?? ''}`);
  };

interface Sides {
  readonly ours: Call;
  readonly fresh: Call;
}

const latencies = async ({ ours, fresh }: Sides): Promise<{ ours: number[]; fresh: number[] }> => {
  const pairs = await byTurns(
    rounds,
    () => oneByOne(ourCalls, ours),
    () => oneByOne(freshCalls, fresh),
  );
  return { ours: pairs.flatMap((pair) => pair.ours), fresh: pairs.flatMap((pair) => pair.floor) };
};

/** @param faster how many times faster than a fresh process it has to be */
const latencyRow = async (name: string, sides: Sides, faster: number, notes: readonly string[]): Promise<Row> => {
  const took = await latencies(sides);
  const [ours, floor] = [median(took.ours), median(took.fresh)];
  return {
    name,
    ours: ms(ours),
    floor: ms(floor),
    ratio: ours / floor,
    target: { of: 'ratio', atMost: 1 / faster },
    notes: [
      `${digits(floor / ours)} × faster than a fresh process (asked: ${faster} ×)`,
      `ours ${spread(took.ours)} ms; fresh process ${spread(took.fresh)} ms`,
      ...notes,
    ],
  };
};

const rateRow = async (name: string, { ours, fresh }: Sides, atLeast: number): Promise<Row> => {
  const pairs = await byTurns(
    rounds,
    () => rateOf(callers, rateMs, ours),
    () => rateOf(callers, rateMs, fresh),
  );
  const [our, floor] = [median(pairs.map((pair) => pair.ours)), median(pairs.map((pair) => pair.floor))];
  return {
    name,
    ours: perSecond(our),
    floor: perSecond(floor),
    ratio: our / floor,
    target: { of: 'ratio', atLeast },
    notes: [`${callers} callers; ours ${range(pairs.map((pair) => pair.ours))}/s over ${rounds} rounds`],
  };
};

const nothing: OpenServices = servicesOf([]);

const noOpRows = async ({ name, program, ending, noOp, open, atLeast }: BenchLanguage): Promise<Row[]> => {
  const runtime = await open({ maxRunners: callers, maxRuns: 1_000_000 });
  const fresh = async (): Promise<void> =>
    expectAnswer(await callFresh({ program, file: `no-op.${ending}`, env: {} }), 'null');
  const sides = { ours: runWith(runtime, requestOf(noOp, 'measured'), 'null', nothing), fresh };
  try {
    await rateOf(callers, rateMs / 2, sides.ours);
    const latency = await latencyRow(`${name} no-op, warm runner, p50`, sides, atLeast.faster, []);
    return [latency, await rateRow(`${name} no-ops, warm runners`, sides, atLeast.rate)];
  } finally {
    await runtime.close();
  }
};

/** From the call for a function that no runner has seen, with a spare that waits, to its answer. */
const firstCall = async ({ noOp, open }: BenchLanguage): Promise<number> => {
  const runtime = await open({ maxRunners: 1 });
  try {
    const [took = Number.NaN] = await oneByOne(1, runWith(runtime, requestOf(noOp, 'new'), 'null', nothing));
    return took;
  } finally {
    await runtime.close();
  }
};

const firstCallRow = async (language: BenchLanguage): Promise<Row> => {
  const { name, program, ending } = language;
  const fresh = async (): Promise<void> =>
    expectAnswer(await callFresh({ program, file: `no-op.${ending}`, env: {} }), 'null');
  const pairs = await byTurns(
    firstCalls,
    () => firstCall(language),
    async () => median(await oneByOne(1, fresh)),
  );
  const [ours, floor] = [pairs.map((pair) => pair.ours), pairs.map((pair) => pair.floor)];
  return {
    name: `${name} no-op, first call, warm spare, p50`,
    ours: ms(median(ours)),
    floor: ms(median(floor)),
    ratio: median(ours) / median(floor),
    target: { of: 'ratio', atMost: 0.4 },
    notes: [`ours ${spread(ours)} ms; fresh process ${spread(floor)} ms; ${firstCalls} new runtimes`],
  };
};

interface Database {
  readonly projectId: string;
  readonly services: OpenServices;
  readonly url: string;
}

const querying: Readonly<Record<string, string>> = {
  JavaScript: 'the fresh process connects with pg',
  Python: 'the fresh process speaks the protocol by itself (fresh/query.py): no driver to load, SCRAM as any client',
};

const queryRow = async (language: BenchLanguage, { projectId, services, url }: Database): Promise<Row> => {
  const { name, program, ending, query, open, atLeast } = language;
  const runtime = await open({ maxRunners: callers, maxRuns: 1_000_000 });
  const answer = '{"n":1}';
  const env = { BENCH_DATABASE_URL: url };
  const fresh = async (): Promise<void> =>
    expectAnswer(await callFresh({ program, file: `query.${ending}`, env }), answer);
  const sides = { ours: runWith(runtime, requestOf(query, projectId), answer, services), fresh };
  try {
    await oneByOne(ourCalls, sides.ours);
    return await latencyRow(`${name} with one db.query, p50`, sides, atLeast.query, [querying[name] ?? '']);
  } finally {
    await runtime.close();
  }
};

/** A project of the stack, and the database part of the SDK as the worker offers it. */
const withDatabase = async <T>(bench: Bench, config: Config, work: (database: Database) => Promise<T>): Promise<T> => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const projectId = await createProject(url, await signUp(url));
  const platform = await openPlatform(config, createLog({ level: 'warn', format: 'json', process: 'bench' }));
  try {
    const services = servicesOf([databaseService({ tenantDb: platform.projects.tenantDb })]);
    return await work({ projectId, services, url: config.DATABASE_URL });
  } finally {
    await platform.close();
  }
};

/** Runs in the sandbox, as the worker's processor calls it, against a fresh process for each call. */
export const functionRunner: Benchmark = {
  name: 'functions/runner',
  run: async (bench) => {
    const config = loadConfig(bench.env);
    const languages = await benchLanguages(config);
    const rows: Row[] = [];
    for (const language of languages) rows.push(...(await noOpRows(language)), await firstCallRow(language));
    await withDatabase(bench, config, async (database) => {
      for (const language of languages) rows.push(await queryRow(language, database));
    });
    return rows;
  },
};
