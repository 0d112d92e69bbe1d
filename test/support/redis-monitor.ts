import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

export interface MonitoredCommand {
  /** The command and what it was called with. */
  readonly args: readonly string[];
  readonly isInScript: boolean;
}

const argument = /"((?:[^"\\]|\\.)*)"/g;

/**
 * Every command that a Redis server runs, by its MONITOR. Not by ioredis: its client throws, where nobody can catch it,
 * when a line arrives while it connects or disconnects.
 * @returns how to stop
 */
export const monitorRedis = async (
  url: string,
  onCommand: (command: MonitoredCommand) => void,
): Promise<() => void> => {
  const { hostname, port, password, searchParams } = new URL(url);
  const path = searchParams.get('path');
  const socket = path === null ? connect(Number(port), hostname) : connect(path);
  await once(socket, 'connect');
  const started = Promise.withResolvers<void>();
  let answers = 0;
  createInterface({ input: socket }).on('line', (line) => {
    if (line === '+OK') answers += 1;
    if (answers === 2) started.resolve();
    const source = /^\+[\d.]+ \[\d+ (\S+)\]/.exec(line)?.[1];
    if (source === undefined) return;
    onCommand({ args: [...line.matchAll(argument)].map(([, text = '']) => text), isInScript: source === 'lua' });
  });
  socket.write(`AUTH ${decodeURIComponent(password)}\r\nMONITOR\r\n`);
  await started.promise;
  return () => socket.destroy();
};
