import type { SchemaCache } from '#domain/data-api/schema/cache-types.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import type { Queryable } from '#lib/control-db.ts';
import { authText } from './parts/auth.ts';
import { schemaText } from './parts/schema.ts';

/** Where what the assistant may know of a project is read. */
export interface ContextDeps {
  readonly db: Queryable;
  readonly tenantDb: Pick<ProjectDb, 'use'>;
  readonly schemas: Pick<SchemaCache, 'get'>;
}

/** The text of the part. */
interface Wanted {
  readonly projectId: string;
  /** How long the text may be, in characters. */
  readonly room: number;
  /** The question: what it mentions goes first. */
  readonly about: string;
}

/** Something that a project consists of, in words. */
interface ContextPart {
  /** As `context_used` names it. */
  readonly name: string;
  /**
   * Names and types, never rows, keys, secrets or values of settings. The same as long as nothing changes: the text is
   * its own version.
   */
  readonly text: (deps: ContextDeps, wanted: Wanted) => Promise<string>;
}

/** The first parts take their room first. */
const parts: readonly ContextPart[] = [
  { name: 'auth', text: authText },
  { name: 'schema', text: schemaText },
];

/** In characters: some 8,000 tokens. */
const maxContext = 24_000;

export interface AssistantContext {
  readonly text: string;
  /** The names of the parts that are in it. */
  readonly used: readonly string[];
}

/** The assistant's knowledge of a project for one question. */
export const contextOf = async (deps: ContextDeps, projectId: string, about: string): Promise<AssistantContext> => {
  let text = '';
  for (const part of parts) {
    const more = await part.text(deps, { projectId, room: maxContext - text.length, about });
    text += `## ${part.name}\n${more}\n\n`;
  }
  return { text, used: parts.map(({ name }) => name) };
};
