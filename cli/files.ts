import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { failed, systemCode } from './errors.ts';
import { cleanLine } from './text.ts';

const reasons: Readonly<Record<string, string>> = {
  EACCES: 'access is denied',
  EPERM: 'access is denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of the path is no folder',
  EISDIR: 'it is a folder',
  ENOENT: 'it does not exist',
  ENAMETOOLONG: 'the name is too long',
};

export const fileFailure = (what: string, file: string, error: unknown): unknown => {
  const code = systemCode(error);
  if (code === undefined) return error;
  return failed('file', `${cleanLine(file)} cannot be ${what}: ${reasons[code] ?? code}.`);
};

/** A text without byte order mark and with the line ends of Unix: the same file on every system. */
export const normal = (text: string): string => text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');

/** @returns undefined when there is no such file */
export const readIfThere = async (file: string): Promise<string | undefined> => {
  try {
    return normal(await readFile(file, 'utf8'));
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw fileFailure('read', file, error);
  }
};

export const readText = async (file: string): Promise<string> => {
  try {
    return normal(await readFile(file, 'utf8'));
  } catch (error) {
    throw fileFailure('read', file, error);
  }
};

/** Twelve random digits for the name of a file. The module `node:crypto` would cost each start 7 ms. */
export const randomDigits = (): string => Buffer.from(crypto.getRandomValues(new Uint8Array(6))).toString('hex');

/**
 * Writes the whole file or nothing.
 * @param mode of the file; `0o600` is for the owner alone, and so is the folder then
 */
export const writeWhole = async (file: string, text: string, mode = 0o644): Promise<void> => {
  const next = `${file}.${randomDigits()}.tmp`;
  try {
    await mkdir(path.dirname(file), { recursive: true, ...(mode === 0o600 && { mode: 0o700 }) });
    await writeFile(next, text, { mode, flag: 'wx' });
    // The mask of the process may have taken bits away, or a folder's rule added some.
    await chmod(next, mode);
    await rename(next, file);
  } catch (error) {
    await rm(next, { force: true }).catch(() => undefined);
    throw fileFailure('written', file, error);
  }
};

/** @throws {Failure} when the file is no JSON object */
export const readJsonFile = async (file: string): Promise<Record<string, unknown> | undefined> => {
  const text = await readIfThere(file);
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // As for what is no object.
  }
  throw failed('file', `${cleanLine(file)} is not a JSON object.`);
};
