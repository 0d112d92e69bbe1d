/** A statement within a text, by its place in UTF-16 units. */
interface Place {
  readonly from: number;
  readonly to: number;
}

/** Parts in which a semicolon ends nothing: comments, texts, quoted names, dollar quotes. */
const opaque =
  /--[^\n\r]*|\/\*|(?<![\w$])[eE]'(?:[^'\\]|''|\\[\s\S])*(?:'|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|\$(?:[A-Za-z_\u0080-\uFFFF][\w\u0080-\uFFFF]*)?\$|[();]/g;

const endOfComment = (text: string, at: number): number => {
  const marks = /\/\*|\*\//g;
  marks.lastIndex = at;
  let depth = 0;
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    depth += mark[0] === '/*' ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  return text.length;
};

/** Where a part that begins with the mark ends; the mark itself for all that ends with it. */
const endOf = (text: string, at: number, mark: string): number => {
  if (mark === '/*') return endOfComment(text, at);
  if (mark.startsWith('$')) {
    const end = text.indexOf(mark, at + mark.length);
    return end === -1 ? text.length : end + mark.length;
  }
  return at + mark.length;
};

/** Calls back with each part, and with whether it is more than a sign. */
const eachPart = (text: string, visit: (mark: string, at: number, end: number) => void): void => {
  const form = new RegExp(opaque);
  for (let found = form.exec(text); found !== null; found = form.exec(text)) {
    const end = endOf(text, found.index, found[0]);
    visit(found[0], found.index, end);
    form.lastIndex = end;
  }
};

const isComment = (mark: string): boolean => mark === '/*' || mark.startsWith('--');

/** Whether there is nothing but comments and space. */
const isBlank = (text: string): boolean => {
  let [rest, from] = ['', 0];
  eachPart(text, (mark, at, end) => {
    rest += text.slice(from, isComment(mark) ? at : end);
    from = end;
  });
  return (rest + text.slice(from)).trim() === '';
};

const trimmed = (text: string, { from, to }: Place): Place => {
  const part = text.slice(from, to);
  return { from: from + (/^\s*/.exec(part)?.[0].length ?? 0), to: from + part.trimEnd().length };
};

/** The statements of a text. The server is the judge of what one is; this only chooses what is sent. */
export const statementsOf = (text: string): Place[] => {
  const places: Place[] = [];
  let [from, depth] = [0, 0];
  eachPart(text, (mark, at) => {
    if (mark === '(') depth += 1;
    if (mark === ')') depth = Math.max(0, depth - 1);
    if (mark !== ';' || depth > 0) return;
    places.push({ from, to: at });
    from = at + 1;
  });
  places.push({ from, to: text.length });
  return places.filter((place) => !isBlank(text.slice(place.from, place.to))).map((place) => trimmed(text, place));
};

/** The statement at the caret; between two of them the one before. */
export const statementAt = (text: string, caret: number): Place | null => {
  const places = statementsOf(text);
  return places.findLast(({ from }) => from <= caret) ?? places[0] ?? null;
};

/** Only the words and parentheses, without comments; whatever is quoted is one word. */
const bare = (text: string): string => {
  let [result, from] = ['', 0];
  eachPart(text, (mark, at, end) => {
    result += text.slice(from, at);
    if (/^[();]$/.test(mark)) result += mark;
    else result += isComment(mark) ? ' ' : ' x ';
    from = end;
  });
  return result + text.slice(from);
};

/** Whether a WHERE follows at the same depth, before the parentheses around it end. */
const hasWhere = (words: string, at: number): boolean => {
  let depth = 0;
  for (const [word] of words.slice(at).matchAll(/[()]|\bwhere\b/gi)) {
    if (word === '(') depth += 1;
    else if (word === ')') depth -= 1;
    else if (depth === 0) return true;
    if (depth < 0) return false;
  }
  return false;
};

const dangerIn = (words: string): string | null => {
  for (const match of words.matchAll(/\b(update|delete\s+from)\b/gi)) {
    const before = words.slice(0, match.index);
    if (/\b(?:for|do|on|key)\s+$/i.test(before)) continue;
    const verb = match[1]?.toLowerCase() === 'update' ? 'UPDATE changes' : 'DELETE deletes';
    if (!hasWhere(words, match.index)) return `This ${verb} every row: it has no WHERE.`;
  }
  return null;
};

/** Why a statement should not be run by mistake, in words; null: it is harmless, or says which rows it means. */
export const dangerOf = (sql: string): string | null => {
  const words = bare(sql);
  const first = /^\s*([a-z]+)/i.exec(words)?.[1]?.toLowerCase() ?? '';
  if (first === 'truncate') return 'TRUNCATE deletes every row.';
  if (first === 'drop') return 'DROP deletes it with all that is in it.';
  // EXPLAIN ANALYZE runs what it explains.
  return /^\s*(?:update|delete|with|explain\b[^;]*\banalyze)\b/i.test(words) ? dangerIn(words) : null;
};
/** A place as the server counts it, in characters, as one in UTF-16 units. */
export const unitsOf = (text: string, characters: number): number =>
  Array.from(text).slice(0, characters).join('').length;
