import { useState } from 'react';

/** A prompt that somebody has saved under a name, in this browser. */
export interface Prompt {
  readonly name: string;
  readonly system: string;
  readonly message: string;
}

const maxPrompts = 100;

const keyOf = (projectId: string): string => `plinth:prompts:${projectId}`;

const isPrompt = (value: unknown): value is Prompt =>
  typeof value === 'object' &&
  value !== null &&
  ['name', 'system', 'message'].every((field) => typeof Reflect.get(value, field) === 'string');

const read = (projectId: string): readonly Prompt[] => {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(keyOf(projectId)) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isPrompt) : [];
  } catch {
    return [];
  }
};

/** The prompts of a project in this browser; the latest stand first. */
export const usePrompts = (projectId: string) => {
  const [prompts, setPrompts] = useState(() => read(projectId));
  const keep = (next: readonly Prompt[]): void => {
    setPrompts(next);
    try {
      localStorage.setItem(keyOf(projectId), JSON.stringify(next));
    } catch {
      // They last as long as the page then.
    }
  };
  return {
    prompts,
    save: (prompt: Prompt) =>
      keep([prompt, ...prompts.filter(({ name }) => name !== prompt.name)].slice(0, maxPrompts)),
    remove: (name: string) => keep(prompts.filter((prompt) => prompt.name !== name)),
  };
};
