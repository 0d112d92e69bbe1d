import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { ClientBase } from 'pg';
import { setNice } from '#lib/cpu-priority.ts';
import { processOf } from './wire.ts';

/**
 * The nice value, of at most 19; the platform's own processes have 0. Under contention such a process gets about a
 * tenth of their share.
 */
const niceness = 10;

const isLocal = (host: string): boolean => host.startsWith('/') || /^(localhost$|127\.|::1$)/.test(host);

const hostOf = (client: ClientBase): string => (client as unknown as { readonly host: string }).host;

/**
 * Processor time that a session's server process has used until now, in ms. Read while others wait for the event loop:
 * it takes 15 µs.
 * @returns null where the server runs on another machine, or the system does not tell
 */
export const processorMsOf = (client: ClientBase): number | null => {
  if (!isLocal(hostOf(client))) return null;
  try {
    const [used] = readFileSync(`/proc/${processOf(client)}/schedstat`, 'latin1').split(' ');
    return Number(used) / 1e6;
  } catch {
    return null;
  }
};

/** Whether a process of this machine is that session: the server may listen here and run in another container. */
const isSession = async (processId: number, user: string): Promise<boolean> => {
  const title = await readFile(`/proc/${processId}/cmdline`, 'utf8').catch(() => '');
  return title.startsWith('postgres:') && title.includes(` ${user} `);
};

/**
 * Lets a session's server process yield to all others that want the processor, where the server runs on this machine
 * and the system allows it (the same user, or root). It cannot be raised again without privileges: the session is not
 * to be used for anything else afterwards.
 * @returns whether it was done; elsewhere nothing happens
 */
export const lowerPriority = async (client: ClientBase): Promise<boolean> => {
  const { user = '' } = client as unknown as { readonly user?: string };
  const processId = processOf(client);
  if (!isLocal(hostOf(client)) || !(await isSession(processId, user))) return false;
  // Each backend leads a session of its own, so the session's weight has to be lowered, too.
  return setNice(processId, niceness);
};
