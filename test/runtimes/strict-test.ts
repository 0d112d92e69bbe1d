import test, { type ExecutionContext } from 'ava';
import { sandbox } from './harness.ts';

/** For behaviour that only namespaces give: skipped by name, with the reason, where there are none. */
export const strictTest = (title: string, run: (t: ExecutionContext) => Promise<void>): void => {
  if (sandbox.level === 'strict') test(title, run);
  else test.skip(`${title} (needs namespaces; ${sandbox.warning})`, run);
};
