import { runInThisContext } from 'node:vm';
import test from 'ava';
import type { Runtime } from '#workers/runtimes/runtime.ts';
import { resultOf } from './harness.ts';

type Run = () => Promise<unknown>;

/** An error as the tests compare it: engines differ in their messages. */
const errorName = (error: unknown): string => `throws ${(error as Error).name}`;

const inNode = async (body: string): Promise<unknown> => {
  const run = runInThisContext(`(async () => { ${body} })`) as Run;
  const value = await run().catch(errorName);
  return JSON.parse(JSON.stringify(value ?? null));
};

const inGuest = (body: string): string =>
  `exports.handler = async () => { try { return await (async () => { ${body} })() } catch (error) { return 'throws ' + error.name } }`;

/**
 * One test for each body of a function: what it returns in the sandbox is what it returns in Node.
 * @param cases title → body
 */
export function sameAsNode(runtime: Runtime, cases: Readonly<Record<string, string>>): void {
  for (const [title, body] of Object.entries(cases)) {
    test(`as in Node: ${title}`, async (t) => {
      t.deepEqual(await resultOf(t, runtime, inGuest(body)), await inNode(body));
    });
  }
}
