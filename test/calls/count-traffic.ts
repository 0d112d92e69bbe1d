import { Socket } from 'node:net';
import { isMainThread } from 'node:worker_threads';
import { Redis } from 'ioredis';
import { Client } from 'pg';

/*
 * Loaded before a process of the platform (`--import`): notes each write to a socket, each packet that is read from
 * one, each statement and each Redis command, and sends them to the parent, which requests them with the message
 * `traffic`. What is counted is what the process tells Node to do: a write that the kernel takes in parts counts once.
 */

/** Milliseconds since 1970, and what happened. */
export type Traffic = readonly (readonly [at: number, what: string])[];

const seen: [at: number, what: string][] = [];
const note = (what: string): void => void seen.push([performance.timeOrigin + performance.now(), what]);

const portOf = (url: string | undefined, usual: string): string => /:(\d+)(?:\/[^/]*)?$/.exec(url ?? '')?.[1] ?? usual;

/** The servers of the platform by port; those that `npm start` and `npm test` made are reached by a path. */
const ports = new Map([
  [portOf(process.env['REDIS_URL'], '6379'), 'redis'],
  [portOf(process.env['DATABASE_URL'], '5432'), 'postgres'],
]);

const byPath = (path: string): string => (path.includes('.s.PGSQL.') ? 'postgres' : 'redis');

interface Target {
  readonly path?: string;
  readonly port?: number | string;
}

/** Sockets that this process has connected; it got the others from somebody: pipes to its children, and its clients. */
const connected = new WeakMap<Socket, string>();

const peerOfTarget = (target: unknown): string => {
  if (typeof target === 'string') return byPath(target);
  const { path, port } = (typeof target === 'object' && target !== null ? target : { port: target }) as Target;
  return path === undefined ? (ports.get(String(port)) ?? 'other') : byPath(path);
};

const peerOf = (socket: Socket): string => {
  if (socket === (process.stdout as unknown) || socket === (process.stderr as unknown)) return 'log';
  return connected.get(socket) ?? (socket.remoteAddress === undefined ? 'runner' : 'client');
};

interface Methods {
  connect: (...args: unknown[]) => unknown;
  _write: (...args: unknown[]) => unknown;
  _writev: (...args: unknown[]) => unknown;
  push: (...args: unknown[]) => unknown;
}

const before = (name: keyof Methods, observe: (socket: Socket, first: unknown) => void): void => {
  const methods = Socket.prototype as unknown as Methods;
  const original = methods[name];
  methods[name] = function counted(this: Socket, ...args) {
    observe(this, args[0]);
    return original.apply(this, args);
  };
};

// Node hands over what it has read of the arguments as a list.
before('connect', (socket, first) => connected.set(socket, peerOfTarget(Array.isArray(first) ? first[0] : first)));
const noteWrite = (socket: Socket): void => note(`write ${peerOf(socket)}`);
before('_write', noteWrite);
before('_writev', noteWrite);
before('push', (socket, chunk) => {
  if (chunk !== null) note(`read ${peerOf(socket)}`);
});

const nameOf = (statement: unknown): string => {
  if (typeof statement === 'string') return statement;
  const { name, text } = (statement ?? {}) as { readonly name?: string; readonly text?: string };
  return name ?? text ?? 'several at once';
};

const clients = Client.prototype as unknown as { query: (...args: unknown[]) => unknown };
const query = clients.query;
clients.query = function counted(this: unknown, ...args) {
  note(`sql ${nameOf(args[0]).replaceAll(/\s+/g, ' ').slice(0, 60)}`);
  return query.apply(this, args);
};

const connections = Redis.prototype as unknown as { sendCommand: (...args: unknown[]) => unknown };
const sendCommand = connections.sendCommand;
connections.sendCommand = function counted(this: unknown, ...args) {
  const { name } = args[0] as { readonly name: string };
  note(`redis ${name}`);
  return sendCommand.apply(this, args);
};

if (isMainThread) {
  process.on('message', (message) => {
    if (message === 'traffic') process.send?.({ traffic: seen.splice(0) });
  });
}
