import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';

interface ServerEvent {
  readonly event: string;
  readonly data: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into events of every shape
}

/** A client of server-sent events. */
export interface EventSource {
  readonly status: number;
  readonly headers: Headers;
  /** The events that have come so far. */
  readonly events: readonly ServerEvent[];
  /** Resolves when the server ends the answer, or the connection breaks. */
  readonly end: Promise<void>;
  readonly close: () => void;
}

export const listen = async (
  url: string,
  token: string,
  given: Readonly<Record<string, string>> = {},
): Promise<EventSource> => {
  const aborter = new AbortController();
  const headers = { ...given, authorization: `Bearer ${token}` };
  const response = await fetch(url, { headers, signal: aborter.signal });
  const events: ServerEvent[] = [];
  const read = async (): Promise<void> => {
    if (response.body === null) return;
    let event = '';
    for await (const line of createInterface({ input: Readable.fromWeb(response.body) })) {
      if (line.startsWith('event: ')) event = line.slice(7);
      if (line.startsWith('data: ')) events.push({ event, data: JSON.parse(line.slice(6)) });
    }
  };
  return {
    status: response.status,
    headers: response.headers,
    events,
    end: read().catch(() => undefined),
    close: () => aborter.abort(),
  };
};
