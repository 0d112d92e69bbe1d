const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
};

/** A text that a spreadsheet would run as a formula gets a mark in front, which makes it a text. */
const cellOf = (value: unknown): string => {
  const text = textOf(value);
  const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
};

/** Rows as CSV (RFC 4180). */
export const csvOf = (columns: readonly string[], rows: readonly (readonly unknown[])[]): string =>
  [columns, ...rows].map((row) => `${row.map(cellOf).join(',')}\r\n`).join('');
