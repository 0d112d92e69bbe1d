import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { LRUCache } from 'lru-cache';

/** Sent as one piece: a stream of its own costs more than the bytes. */
export const smallBytes = 64 * 1024;

const maxProjects = 32;
const bytesPerProject = 2 ** 20;

interface SmallFile {
  readonly projectId: string;
  /** The key in the object store. It names one version, whose bytes never change. */
  readonly key: string;
  /** Bytes, at most `smallBytes`. */
  readonly size: number;
}

/** The content of a small file; `open` is called when it is not held. */
export type ReadSmallFile = (file: SmallFile, open: () => Promise<Readable>) => Promise<Buffer>;

/**
 * Holds small files that were read lately, at most 1 MB of each of 32 projects: opening, reading and closing a file cost
 * more than the statement that decides whether the caller may read it. An entry is never out of date, since every
 * version has a key of its own; a caller gets here only with a row that names the version.
 */
export const createSmallFiles = (): ReadSmallFile => {
  const projects = new LRUCache<string, LRUCache<string, Buffer>>({ max: maxProjects });
  const filesOf = (projectId: string): LRUCache<string, Buffer> => {
    const present = projects.get(projectId);
    if (present !== undefined) return present;
    const files = new LRUCache<string, Buffer>({
      maxSize: bytesPerProject,
      sizeCalculation: (content, key) => content.length + key.length,
    });
    projects.set(projectId, files);
    return files;
  };
  return async ({ projectId, key, size }, open) => {
    const files = filesOf(projectId);
    const held = files.get(key);
    if (held !== undefined) return held;
    const content = await buffer(await open());
    if (content.length !== size) throw new Error('a stored content has another length');
    files.set(key, content);
    return content;
  };
};
