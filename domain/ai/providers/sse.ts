import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';
import { ProviderFault, type SentEvent } from './dialect.ts';

/**
 * The bound of one event, in UTF-16 units: real events are far below it, and a stream without line ends fills no
 * memory.
 */
const maxEventBytes = 1_000_000;

export interface SseReader {
  /**
   * Takes what came and answers the events that are whole with it. One that has no blank line after it at the stream's end
   * is no event (HTML standard, 9.2.6).
   * @throws {ProviderFault} `bad_answer` when an event is longer than 1,000,000 characters
   */
  readonly feed: (chunk: Buffer) => readonly SentEvent[];
}

/** Text of bytes that may end within a character. Nearly all chunks end with a line: those need no state. */
const createDecode = (): ((chunk: Buffer) => string) => {
  let decoder: StringDecoder | null = null;
  return (chunk) => {
    if (decoder === null) {
      if ((chunk.at(-1) ?? 0) < 0x80) return chunk.toString();
      decoder = new StringDecoder('utf8');
    }
    return decoder.write(chunk);
  };
};

export const createSseReader = (): SseReader => {
  const decode = createDecode();
  let isFirst = true;
  let tooLong = false;
  let events: SentEvent[] = [];
  const parser = createParser({
    onEvent: ({ event = '', data }) => {
      if (data.length > maxEventBytes) tooLong = true;
      else events.push({ event, data });
    },
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') tooLong = true;
    },
    maxBufferSize: maxEventBytes,
  });
  return {
    feed: (chunk) => {
      let text = decode(chunk);
      if (isFirst && text !== '') {
        isFirst = false;
        // A byte order mark is allowed before the first line.
        if (text.startsWith('\uFEFF')) text = text.slice(1);
      }
      events = [];
      parser.feed(text);
      if (tooLong) throw new ProviderFault('bad_answer', 'The provider sent an event that is too long.');
      return events;
    },
  };
};
