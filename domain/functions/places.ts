import { transform } from 'esbuild';

/**
 * Puts the tokens of generated code back onto the lines and columns of its source, so that a stack trace of the
 * generated code reads as one of the source. The alternative, a source map that is kept beside the code and applied to
 * every stack, would also have to be applied inside the sandbox to each stack that user code prints itself.
 */

/** How generated code becomes the text that runs, before or after its tokens are moved to their places. */
export type Wrap = (code: string) => string;

export interface Generated {
  readonly code: string;
  readonly map: string;
  readonly wrap: Wrap;
}

/** From this line of the text on, lines are those of a source from `sourceLine` on; all are counted from 0. */
interface Stretch {
  readonly line: number;
  readonly source: number;
  readonly sourceLine: number;
}

/** A text on the lines of its sources: of one source on the same lines, of several on those that `stretches` say. */
interface Aligned {
  readonly code: string;
  readonly stretches: readonly Stretch[];
}

/**
 * Code laid out on the source's own lines and columns. Moving tokens apart must never change what they mean, so both
 * texts are parsed and printed again; where they differ, right code with wrong line numbers is the better of the two.
 */
export async function samePlaces({ code, map, wrap }: Generated): Promise<Aligned> {
  const plain = wrap(code);
  const { code: aligned, stretches } = alignToSource(code, map);
  const candidate = wrap(aligned);
  const [before, after] = await Promise.all([canonical(plain), canonical(candidate)]);
  return before !== null && before === after ? { code: candidate, stretches } : { code: plain, stretches: [] };
}

async function canonical(code: string): Promise<string | null> {
  try {
    const result = await transform(code, { loader: 'js', minifyWhitespace: true, charset: 'utf8', logLevel: 'silent' });
    return result.code;
  } catch {
    return null;
  }
}

interface Segment {
  /** Where the token begins in the generated code. */
  readonly offset: number;
  /** Index of the source that it stands in. */
  readonly source: number;
  /** Where it begins in the source, both from 0. */
  readonly line: number;
  readonly column: number;
}

/** After these characters a line break can neither end a statement nor split a token. */
const breakable = new Set(';{},([=&|?:*%<>!~^.');
/**
 * After these words it cannot either; `return`, `throw`, `yield`, `break`, `continue` and `async` are not among them.
 */
const breakableWord =
  /(?:^|[^\w$.])(?:else|await|new|typeof|void|delete|in|of|instanceof|case|const|let|var|extends) $/;

const atTheBeginning: Stretch = { line: 0, source: 0, sourceLine: 0 };

/**
 * @param code printed by esbuild with `minifyWhitespace`: the only line breaks in it stand inside template literals
 * @param map its source map (version 3)
 */
function alignToSource(code: string, map: string): Aligned {
  const { mappings, sources } = JSON.parse(map) as { mappings: string; sources: readonly string[] };
  const writer = new PlacedText();
  const stretches: Stretch[] = [];
  const isOne = sources.length <= 1;
  let stretch = atTheBeginning;
  let previous: Segment = { offset: 0, source: isOne ? 0 : -1, line: 0, column: 0 };
  for (const segment of decodeSegments(code, mappings)) {
    writer.write(withoutExtraBreaks(code.slice(previous.offset, segment.offset), segment.line - previous.line));
    // The parts of a bundle stand in the order in which they run, and a source may have several.
    if (!isOne && (segment.source !== previous.source || segment.line < previous.line)) {
      stretch = { line: writer.line + 1, source: segment.source, sourceLine: segment.line };
      stretches.push(stretch);
    }
    writer.moveTo(
      { line: stretch.line + segment.line - stretch.sourceLine, column: segment.column },
      code.charAt(segment.offset),
    );
    previous = segment;
  }
  writer.write(code.slice(previous.offset));
  return { code: writer.text(), stretches: isOne ? [atTheBeginning] : stretches };
}

/** `\n` in a template literal is printed as a real line break, which would push all that follows down a line. */
function withoutExtraBreaks(text: string, sourceLines: number): string {
  if (!text.includes('\n')) return text;
  const printedLines = text.split('\n').length - 1;
  return printedLines > Math.max(sourceLines, 0) ? text.replaceAll('\n', String.raw`\n`) : text;
}

class PlacedText {
  readonly #parts: string[] = [];
  #tail = '';
  #line = 0;
  #column = 0;

  write(text: string): void {
    if (text === '') return;
    this.#parts.push(text);
    this.#tail = (this.#tail + text).slice(-16);
    const lastBreak = text.lastIndexOf('\n');
    if (lastBreak === -1) {
      this.#column += text.length;
      return;
    }
    this.#line += text.split('\n').length - 1;
    this.#column = text.length - lastBreak - 1;
  }

  get line(): number {
    return this.#line;
  }

  moveTo({ line, column }: Pick<Segment, 'line' | 'column'>, next: string): void {
    if (line > this.#line && this.#mayBreakBefore(next)) this.write('\n'.repeat(line - this.#line));
    if (line === this.#line && column > this.#column) this.write(' '.repeat(column - this.#column));
  }

  text(): string {
    return this.#parts.join('');
  }

  #mayBreakBefore(next: string): boolean {
    const last = this.#tail.at(-1) ?? ';';
    if (breakable.has(last)) return true;
    if (last === ')') return !'=+-'.includes(next);
    return last === ' ' && (this.#tail.trimEnd() === '' || breakableWord.test(this.#tail));
  }
}

/** Decodes the mappings field (base64 VLQ) into segments in the order of the generated code. */
function decodeSegments(code: string, mappings: string): Segment[] {
  const segments: Segment[] = [];
  let lineStart = 0;
  let [source, line, column] = [0, 0, 0];
  for (const [index, group] of mappings.split(';').entries()) {
    let generatedColumn = 0;
    for (const encoded of group.split(',')) {
      const [columnDelta = 0, sourceDelta, lineDelta = 0, sourceColumnDelta = 0] = decodeVlq(encoded);
      generatedColumn += columnDelta;
      if (sourceDelta === undefined) continue;
      source += sourceDelta;
      line += lineDelta;
      column += sourceColumnDelta;
      // esbuild repeats the last position at the start of a printed line: that is the inside of a template literal.
      if (index > 0 && generatedColumn === 0) continue;
      segments.push({ offset: lineStart + generatedColumn, source, line, column });
    }
    lineStart = code.indexOf('\n', lineStart) + 1;
  }
  return segments;
}

const base64Digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const digits = new Map(Array.from(base64Digits, (character, value) => [character, value]));

function decodeVlq(encoded: string): number[] {
  const values: number[] = [];
  let value = 0;
  let shift = 0;
  for (const character of encoded) {
    const digit = digits.get(character) ?? 0;
    value += (digit & 31) << shift;
    shift += 5;
    if ((digit & 32) !== 0) continue;
    values.push((value & 1) === 1 ? -(value >>> 1) : value >>> 1);
    value = 0;
    shift = 0;
  }
  return values;
}
