import { isDependencyFailure } from '#lib/errors.ts';
import { type SandboxFacts, type SandboxLevel, functionInvoke, sandboxLevels } from '#queues/function-invoke.ts';
import type { Gate } from '#queues/gate/types.ts';
import type { Language } from './store.ts';

const weaker = (a: SandboxLevel, b: SandboxLevel): SandboxLevel =>
  sandboxLevels.indexOf(a) < sandboxLevels.indexOf(b) ? a : b;

/**
 * The languages that live workers run functions in, each with the weakest of their sandboxes. Null while that is not
 * known: no such worker is alive, or Redis does not answer.
 */
export async function sandboxFacts(gate: Pick<Gate, 'stats'>): Promise<SandboxFacts | null> {
  try {
    const { workers } = await gate.stats(functionInvoke.type);
    const facts = new Map<string, SandboxLevel>();
    for (const [language, level] of workers.flatMap(({ sandbox = {} }) => Object.entries(sandbox))) {
      facts.set(language, weaker(level, facts.get(language) ?? level));
    }
    return facts.size === 0 ? null : Object.fromEntries(facts);
  } catch (error) {
    if (isDependencyFailure(error)) return null;
    throw error;
  }
}

/** Whether a function in this language can run here; while it is not known which ones can, it is taken to be so. */
export async function isLanguageServed(gate: Pick<Gate, 'stats'>, language: Language): Promise<boolean> {
  const facts = await sandboxFacts(gate);
  return facts === null || Object.hasOwn(facts, language);
}
