import { renameSync, statSync } from 'node:fs';

const maxBytes = 10 * 1024 * 1024;

/** Puts a log that has grown large aside (`….1`, replacing an older one) before a server begins to add to it. */
export const trimLog = (file: string): void => {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > maxBytes) renameSync(file, `${file}.1`);
};
