import { build } from 'esbuild';
import { loadConfig } from '#lib/config.ts';
import { createJavascriptRuntime } from '#workers/runtimes/javascript/index.ts';
import { openSandbox } from '#workers/runtimes/sandbox.ts';
import type { Runtime } from '#workers/runtimes/runtime.ts';
import { type Bench, type Benchmark, byTurns, digits, median, ms, spread } from '../harness.ts';
import { expectAnswer, oneByOne } from './measure.ts';

const noOp = 'exports.handler = () => null;';
const rounds = 6;
const callsInRound = 100;
/** A caller beside whom the machine does other things: a request comes over HTTP and through the queue. */
const pauseMs = 5;

/** A no-op with a library of which it uses nothing: what a function costs by its size alone. */
const bundle = async (): Promise<string> => {
  const contents = `import * as library from 'graphql'; export { library }; ${noOp.replace('exports.handler', 'export const handler')}`;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname },
    bundle: true,
    write: false,
    format: 'cjs',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    minifyWhitespace: true,
  });
  return outputFiles[0]?.text ?? '';
};

const callerOf = (runtime: Runtime, functionId: string, code: string) => async (): Promise<void> => {
  const request = { projectId: functionId, functionId, version: 1, code, entryPoint: 'handler', payload: 'null' };
  const { result, error } = await runtime.run({ ...request, env: {}, timeoutMs: 10_000, memoryMib: 128 });
  expectAnswer(result, 'null', error?.message);
};

const paused = async (call: () => Promise<void>): Promise<number[]> => {
  const took: number[] = [];
  for (let n = 0; n < callsInRound; n += 1) {
    took.push(...(await oneByOne(1, call)));
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return took;
};

const openRuntime = async ({ env }: Bench): Promise<Runtime> => {
  const config = loadConfig(env);
  const sandbox = await openSandbox({ level: config.SANDBOX, local: true, bwrapPath: config.PLINTH_BWRAP });
  const log = { warn: () => undefined, error: () => undefined };
  return createJavascriptRuntime({ sandbox, maxRunners: 2, spares: 1, maxRuns: 1_000_000, log });
};

export const functionBundle: Benchmark = {
  name: 'functions/bundle',
  run: async (bench) => {
    const runtime = await openRuntime(bench);
    const code = await bundle();
    const [large, small] = [callerOf(runtime, 'large', code), callerOf(runtime, 'small', noOp)];
    const row = async (name: string, measure: (call: () => Promise<void>) => Promise<number[]>) => {
      const pairs = await byTurns(
        rounds,
        () => measure(large),
        () => measure(small),
      );
      const [ours, floor] = [pairs.flatMap((pair) => pair.ours), pairs.flatMap((pair) => pair.floor)];
      return {
        name,
        ours: ms(median(ours)),
        floor: ms(median(floor)),
        ratio: median(ours) / median(floor),
        notes: [
          `floor: a no-op of 29 bytes; the bundle has ${digits(code.length / 1024)} KB`,
          `bundle ${spread(ours)} ms; no-op ${spread(floor)} ms`,
        ],
      };
    };
    try {
      await oneByOne(callsInRound, large);
      await oneByOne(callsInRound, small);
      const some = await row(`warm call of a large bundle, one every ${pauseMs} ms, p50`, paused);
      const target = { of: 'ratio' as const, atMost: 1.3 };
      const each = (call: () => Promise<void>): Promise<number[]> => oneByOne(callsInRound, call);
      return [{ ...some, target }, await row('warm call of a large bundle, one right after the other, p50', each)];
    } finally {
      await runtime.close();
    }
  },
};
