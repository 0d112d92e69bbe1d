import { once } from 'node:events';
import { type Socket, connect } from 'node:net';

/** The bytes that a server wrote to a connection before it closed it. */
export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into answers of every shape
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

export const parseAnswer = (raw: string): RawAnswer => {
  const end = raw.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = raw.slice(0, end).split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  const text = raw.slice(end + 4);
  return { status: Number(statusLine.split(' ')[1]), headers, text, body: parseJson(text) };
};

/** The chunks of the body of an answer with `Transfer-Encoding: chunked` (RFC 9112, 7.1). */
export const chunksOf = (raw: Buffer): Buffer[] => {
  const chunks: Buffer[] = [];
  let at = raw.indexOf('\r\n\r\n') + 4;
  for (;;) {
    const start = raw.indexOf('\r\n', at) + 2;
    const size = Number.parseInt(raw.toString('latin1', at, start), 16);
    if (!(size > 0)) return chunks;
    chunks.push(raw.subarray(start, start + size));
    at = start + size + 2;
  }
};

/** @param allowHalfOpen whether this side stays open when the server has closed its own */
export const connectTo = async (base: string, allowHalfOpen = false): Promise<Socket> => {
  const { hostname, port } = new URL(base);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen });
  await once(socket, 'connect');
  return socket;
};

/** Everything that arrives until the other side closes; what was sent in vain is no failure. */
export const readToEnd = async (socket: Socket): Promise<string> => {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', () => undefined);
  if (!socket.closed) await once(socket, 'close').catch(() => undefined);
  return Buffer.concat(chunks).toString();
};

/** Sends these bytes, whatever they are, and reads until the server closes: ask for that with `Connection: close`. */
export const sendRaw = async (base: string, bytes: string | Buffer): Promise<RawAnswer> => {
  const socket = await connectTo(base);
  const answer = readToEnd(socket);
  socket.write(bytes);
  return parseAnswer(await answer);
};
