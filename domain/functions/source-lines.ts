/**
 * Puts the tokens of generated code back onto the lines and columns of its source, so that a stack trace of the
 * generated code reads as one of the source. The alternative, a source map that is kept beside the code and applied to
 * every stack, would also have to be applied inside the sandbox to each stack that user code prints itself.
 */

interface Segment {
  /** Where the token begins in the generated code. */
  readonly offset: number;
  /** Where it begins in the source, both from 0. */
  readonly line: number;
  readonly column: number;
}

/** After these characters a line break can neither end a statement nor split a token. */
const breakable = new Set(';{},([=&|?:*%<>!~^.');
/** After these words it cannot either; `return`, `throw`, `yield`, `break`, `continue` and `async` are not among them. */
const breakableWord =
  /(?:^|[^\w$.])(?:else|await|new|typeof|void|delete|in|of|instanceof|case|const|let|var|extends) $/;

/**
 * @param code printed by esbuild with `minifyWhitespace`: the only line breaks in it stand inside template literals
 * @param map its source map (version 3, one source)
 */
export function alignToSource(code: string, map: string): string {
  const segments = decodeSegments(code, (JSON.parse(map) as { mappings: string }).mappings);
  const writer = new PlacedText();
  let previous: Segment = { offset: 0, line: 0, column: 0 };
  for (const segment of segments) {
    writer.write(withoutExtraBreaks(code.slice(previous.offset, segment.offset), segment.line - previous.line));
    writer.moveTo(segment, code.charAt(segment.offset));
    previous = segment;
  }
  writer.write(code.slice(previous.offset));
  return writer.text();
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

  moveTo({ line, column }: Segment, next: string): void {
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
  let line = 0;
  let column = 0;
  for (const [index, group] of mappings.split(';').entries()) {
    let generatedColumn = 0;
    for (const encoded of group.split(',')) {
      const [columnDelta = 0, source, lineDelta = 0, sourceColumnDelta = 0] = decodeVlq(encoded);
      generatedColumn += columnDelta;
      if (source === undefined) continue;
      line += lineDelta;
      column += sourceColumnDelta;
      // esbuild repeats the last position at the start of a printed line: that is the inside of a template literal.
      if (index > 0 && generatedColumn === 0) continue;
      segments.push({ offset: lineStart + generatedColumn, line, column });
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
