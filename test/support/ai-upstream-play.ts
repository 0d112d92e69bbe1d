import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Behaviour } from './ai-upstream-behaviour.ts';
import type { Frames } from './ai-upstream-wire.ts';

const written = (response: ServerResponse, bytes: Uint8Array): Promise<void> =>
  new Promise((resolve) => {
    response.write(bytes, () => resolve());
  });

/** Cuts the connection, once what was written is out. */
export const cutConnection = (response: ServerResponse): void => {
  response.socket?.resetAndDestroy();
};

const framed = (frame: string, { newline = '\n', comments = false }: Behaviour): string => {
  const text = `${frame}\n\n`;
  return (comments ? `: keep-alive\n\n:\n${text}` : text).replaceAll('\n', newline);
};

const send = async (response: ServerResponse, frame: string, behaviour: Behaviour): Promise<void> => {
  const bytes = Buffer.from(framed(frame, behaviour));
  const step = behaviour.writeBytes ?? bytes.length;
  for (let at = 0; at < bytes.length && !response.destroyed; at += step) {
    await written(response, bytes.subarray(at, at + step));
    // Apart, so that they are not one packet.
    if (behaviour.writeBytes !== undefined) await nextTurn();
  }
};

/** The beginning of an event: to the middle of it, or of its first character that takes several bytes. */
const beginning = (frame: string, inside: 'event' | 'character'): Buffer => {
  const bytes = Buffer.from(frame);
  const wide = bytes.findIndex((byte) => byte > 0x7f);
  return bytes.subarray(0, inside === 'character' && wide !== -1 ? wide + 1 : bytes.length >> 1);
};

const breakOff = async (response: ServerResponse, next: string, error: string, behaviour: Behaviour): Promise<void> => {
  const { how = 'clean', inside } = behaviour.break ?? {};
  if (inside) await written(response, beginning(next, inside));
  switch (how) {
    case 'reset':
      // FIN in place of the last chunk: what was written arrives, which a reset may swallow.
      response.socket?.destroySoon();
      return;
    case 'clean':
      response.end();
      return;
    case 'stall':
      return;
    case 'error_event':
      await send(response, error, behaviour);
      response.end();
      return;
    case 'malformed':
      await send(response, 'data: {"choices": [{"delta', behaviour);
      response.end();
      return;
    case 'huge':
      await send(response, `data: "${'x'.repeat(behaviour.hugeBytes ?? 0)}"`, behaviour);
      response.end();
  }
};

/** Sends a stream, with whatever is to go wrong. */
export const playStream = async (response: ServerResponse, frames: Frames, behaviour: Behaviour): Promise<void> => {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...behaviour.headers });
  response.flushHeaders();
  await behaviour.firstToken;
  for (const frame of frames.head) await send(response, frame, behaviour);
  for (let at = 0; at <= frames.pieces.length; at += 1) {
    if (behaviour.hold?.after === at) await behaviour.hold.until;
    if (behaviour.break?.after === at) {
      await breakOff(response, frames.pieces[at] ?? frames.tail[0] ?? '', frames.error, behaviour);
      return;
    }
    const piece = frames.pieces[at];
    if (piece !== undefined) await send(response, piece, behaviour);
  }
  for (const frame of frames.tail) await send(response, frame, behaviour);
  response.end();
};
