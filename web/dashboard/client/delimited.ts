/** Rows of cells, as spreadsheets write them: separated by commas or tabs, in quotes where that is needed (RFC 4180). */

export interface DelimitedCell {
  readonly text: string;
  /** In quotes: an empty one is an empty text, and not nothing. */
  readonly isQuoted: boolean;
}

const endOfQuoted = (text: string, at: number): number => {
  let end = at + 1;
  for (;;) {
    end = text.indexOf('"', end);
    if (end === -1) return text.length;
    if (text[end + 1] !== '"') return end;
    end += 2;
  }
};

const endOfPlain = (text: string, at: number, separator: string): number => {
  let end = at;
  while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end += 1;
  return end;
};

const cellAt = (text: string, at: number, separator: string): { cell: DelimitedCell; end: number } => {
  if (text[at] !== '"') {
    const end = endOfPlain(text, at, separator);
    return { cell: { text: text.slice(at, end), isQuoted: false }, end };
  }
  const close = endOfQuoted(text, at);
  const end = endOfPlain(text, Math.min(text.length, close + 1), separator);
  return { cell: { text: text.slice(at + 1, close).replaceAll('""', '"'), isQuoted: true }, end };
};

/** Every row; lines end with LF or CRLF, and the last one may end without. */
export const parseDelimited = (text: string, separator: ',' | '\t' | ';'): DelimitedCell[][] => {
  const rows: DelimitedCell[][] = [];
  let row: DelimitedCell[] = [];
  let at = text.startsWith('\uFEFF') ? 1 : 0;
  while (at < text.length) {
    const { cell, end } = cellAt(text, at, separator);
    row.push(cell);
    if (text[end] === separator) {
      at = end + 1;
      if (at === text.length) row.push({ text: '', isQuoted: false });
      continue;
    }
    at = text[end] === '\r' && text[end + 1] === '\n' ? end + 2 : end + 1;
    rows.push(row);
    row = [];
  }
  if (row.length > 0) rows.push(row);
  return rows;
};

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

/** A cell of CSV: NULL is nothing, and an empty text a pair of quotes. */
export const csvCell = (text: string | null): string => {
  if (text === null) return '';
  return text === '' || /[",\r\n]|^\s|\s$/.test(text) ? quoted(text) : text;
};

/** Rows for the clipboard of a spreadsheet. */
export const tabbed = (rows: readonly (readonly string[])[]): string =>
  rows.map((row) => row.map((text) => (/["\t\r\n]/.test(text) ? quoted(text) : text)).join('\t')).join('\n');
