import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

export const root = path.join(import.meta.dirname, '../..');

export interface SourceFile {
  /** From the root of the checkout, with slashes. */
  readonly name: string;
  readonly text: string;
}

/** The platform's own code: what runs in production and what starts it. */
export const productFolders = [
  'api',
  'bench',
  'cli',
  'domain',
  'faults',
  'lib',
  'migrations',
  'queues',
  'scripts',
  'workers',
];

export const filesOf = (folders: readonly string[]): SourceFile[] =>
  folders
    .flatMap((folder) => globSync(`${folder}/**/*.{ts,tsx,js,mjs,cjs,sql}`, { cwd: root }))
    .map((name) => ({ name, text: readFileSync(path.join(root, name), 'utf8') }));
