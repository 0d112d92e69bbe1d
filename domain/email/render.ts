import { ServiceError } from '#lib/errors.ts';
import { type Place, readMarkup } from './markup.ts';

/** The values of placeholders; `{{a.b}}` looks into an object. */
export interface Variables {
  readonly [name: string]: string | number | Variables;
}

export interface Rendered {
  readonly text: string;
  /** Placeholders that stand for nothing, each once. */
  readonly missing: readonly string[];
}

// Bounded, so that no text can make it look twice at the same place.
const placeholder = /\{\{\s*([A-Za-z_]\w{0,63}(?:\.[A-Za-z_]\w{0,63}){0,4})\s*\}\}/g;

const maxValueLength = 2048;
const maxMissing = 50;
/** In characters. A short template with many placeholders must not become a long mail. */
const maxResultLength = 1024 * 1024;

/** Own properties only: `constructor` and `__proto__` are names like any other. */
const valueOf = (path: string, variables: Variables): string | undefined => {
  let value: unknown = variables;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = Reflect.get(value, name);
  }
  return typeof value === 'string' || typeof value === 'number' ? String(value).slice(0, maxValueLength) : undefined;
};

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
};

/** For text and for quoted values of attributes. */
export const escapeHtml = (text: string): string => text.replaceAll(/[&<>"'`]/g, (char) => escapes[char] ?? char);

/** For wherever in a tag: nothing of it ends a value that has no quotes. */
const escapeForTag = (text: string): string =>
  escapeHtml(text).replaceAll(/[\s\p{C}=/]/gu, (char) => `&#${char.codePointAt(0)};`);

/** Attributes that lead somewhere. */
const isLink = (attribute: string): boolean =>
  /(?:^|:)(?:href|src|srcset|action|formaction|background|poster|cite|data|ping|longdesc|lowsrc|dynsrc|codebase|classid|manifest)$/.test(
    attribute,
  );

const harmless = /^(?:https?:\/\/|mailto:)/i;

/** Whether it would be taken for an address that is none of the web and none of mail, there or with what stands before it. */
const isStrange = (value: string): boolean => {
  const seen = value.replaceAll(/[\s\p{C}]+/gu, '');
  if (harmless.test(seen)) return false;
  return /^[^/?#]*:/.test(seen) || /(?:script|data):/i.test(seen);
};

const writeAt = ({ kind, begins }: Place, value: string): string => {
  if (kind === 'text') return escapeHtml(value);
  if (kind === 'tag name') return /^\d{1,2}$/.test(value) ? value : '#';
  if (isStrange(value)) return '#';
  if (begins !== null && isLink(begins) && !harmless.test(value.trim())) return '#';
  return kind === 'quoted' ? escapeHtml(value) : escapeForTag(value);
};

interface Slot {
  readonly offset: number;
  readonly end: number;
}

/** @param value undefined: there is none, and nothing is written */
type Replace = (value: string | undefined, slot: Slot) => string;

const renderWith = (template: string, variables: Variables, replace: Replace): Rendered => {
  const missing = new Set<string>();
  let room = maxResultLength - template.length;
  const text = template.replaceAll(placeholder, (whole, path: string, offset: number) => {
    const value = valueOf(path, variables);
    if (value === undefined && missing.size < maxMissing) missing.add(path);
    const written = replace(value, { offset, end: offset + whole.length });
    room -= written.length;
    if (room < 0) throw new ServiceError('validation_failed', 'With its variables the mail is longer than 1 MB.');
    return written;
  });
  return { text, missing: [...missing] };
};

/** Fills in a body of HTML; a link that a value would turn into anything but a web or mail address leads nowhere. */
export const renderHtml = (template: string, variables: Variables): Rendered => {
  const reader = readMarkup(template);
  return renderWith(template, variables, (value, { offset, end }) => {
    const place = reader.placeAt(offset);
    const written = value === undefined ? '' : writeAt(place, value);
    reader.skipTo(end, written === '');
    return written;
  });
};

/** Fills in a subject: whatever the values hold, it stays one line. */
export const renderSubject = (template: string, variables: Variables): Rendered => {
  const { text, missing } = renderWith(template, variables, (value = '') => value);
  return { text: text.replaceAll(/[\p{Cc}\p{Cs}\u2028\u2029]+/gu, ' ').trim(), missing };
};

/** The placeholders of a template that none of these names fills. */
export const unknownPlaceholders = (templates: readonly string[], variables: Variables): string[] =>
  [
    ...new Set(
      templates
        .flatMap((template) => [...template.matchAll(placeholder)].map(([, path = '']) => path))
        .filter((path) => valueOf(path, variables) === undefined),
    ),
  ].slice(0, maxMissing);
