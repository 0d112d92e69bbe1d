import { randomUUID } from 'node:crypto';
import { parseExactJson } from './json.ts';

/** Holds the place of a text while JSON is written. It is never sent, so no value of a tenant contains it. */
const mark = randomUUID();

/** The texts of the value that is being written; null: nobody collects them. */
let collected: string[] | null = null;

/** An answer, or a part of one, that is JSON already: it goes out as it is, numbers that JavaScript cannot hold included. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** For JSON.stringify by itself, which can only write values. */
  toJSON(): unknown {
    if (collected === null) return parseExactJson(this.text);
    collected.push(this.text);
    return mark;
  }
}

/**
 * JSON.stringify that writes each `JsonText` within the value as it is: building the values of stored texts would take
 * 0.8 µs for each number of theirs, and memory of up to thirty times their size.
 */
export const stringifyWithTexts = (value: unknown): string => {
  const texts: string[] = [];
  collected = texts;
  try {
    const written = JSON.stringify(value);
    if (texts.length === 0) return written;
    const pieces = written.split(`"${mark}"`);
    return pieces.map((piece, place) => piece + (texts[place] ?? '')).join('');
  } finally {
    collected = null;
  }
};
