import { existsSync } from 'node:fs';
import path from 'node:path';
import { usage } from './errors.ts';
import { readJsonFile, writeWhole } from './files.ts';
import { cleanLine } from './text.ts';

/** A folder's project: `plinth/config.json`, which belongs into version control. */
export interface Link {
  readonly url: string;
  readonly project_id: string;
  readonly ref: string;
  readonly name: string;
}

const configPath = path.join('plinth', 'config.json');

/** The folder with `plinth/config.json`: this one or the nearest above it; undefined: there is none. */
export const linkedRoot = (cwd: string): string | undefined => {
  for (let folder = cwd; ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, configPath))) return folder;
    if (path.dirname(folder) === folder) return undefined;
  }
};

const textOf = (config: Readonly<Record<string, unknown>>, field: keyof Link): string => {
  const value = config[field];
  return typeof value === 'string' ? value : '';
};

export const readLink = async (cwd: string): Promise<Link | undefined> => {
  const root = linkedRoot(cwd);
  const config = root === undefined ? undefined : await readJsonFile(path.join(root, configPath));
  if (config === undefined || textOf(config, 'project_id') === '') return undefined;
  return {
    url: textOf(config, 'url'),
    project_id: textOf(config, 'project_id'),
    ref: textOf(config, 'ref'),
    name: textOf(config, 'name'),
  };
};

export const writeLink = async (folder: string, link: Link): Promise<string> => {
  const file = path.join(folder, configPath);
  const present = (await readJsonFile(file)) ?? {};
  await writeWhole(file, `${JSON.stringify({ ...present, ...link }, undefined, 2)}\n`);
  return file;
};

/**
 * An address as it is kept: scheme, host, port and a path, without a slash at its end.
 * @throws {Failure} `usage`
 */
export const readUrl = (given: string): string => {
  let url: URL;
  try {
    url = new URL(given.includes('://') ? given : `https://${given}`);
  } catch {
    throw usage(`"${cleanLine(given)}" is not an address.`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw usage('The address must begin with https:// or http://.');
  if (url.username !== '' || url.password !== '') throw usage('The address must not hold a password.');
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
};

/** Whether it names this very machine. */
export const isLoopback = (url: string): boolean => {
  const { hostname } = new URL(url);
  return (
    hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.') || hostname.endsWith('.localhost')
  );
};
