import type { Redis } from 'ioredis';
import type { TemplateType } from './templates.ts';

/**
 * Previews of templates that are not saved yet, for the frame beside the editor: a frame loads an address, and cannot be
 * given a text under the policy of the dashboard. One for each template and member, for ten minutes.
 */
export interface MailPreviews {
  readonly keep: (of: PreviewName, html: string) => Promise<void>;
  /** Null: there is none, or it is too old. */
  readonly find: (of: PreviewName) => Promise<string | null>;
}

interface PreviewName {
  readonly projectId: string;
  readonly userId: string;
  readonly type: TemplateType;
}

const keptSeconds = 600;

/** @param prefix of all keys in Redis */
export const createMailPreviews = (redis: Pick<Redis, 'get' | 'set'>, prefix: string): MailPreviews => {
  const nameOf = ({ projectId, userId, type }: PreviewName): string =>
    `${prefix}:mail-preview:${projectId}:${userId}:${type}`;
  return {
    keep: async (of, html) => void (await redis.set(nameOf(of), html, 'EX', keptSeconds)),
    find: (of) => redis.get(nameOf(of)),
  };
};
