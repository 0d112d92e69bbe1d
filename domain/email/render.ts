import { convert } from 'html-to-text';
import { ServiceError } from '#lib/errors.ts';

/**
 * In characters. Nested tables cost more than their length: 256 KB of them half a second, this at most 50 ms. Gmail
 * cuts bodies of more than 102 KB, too.
 */
const maxHtml = 100_000;

/** For clients that show no HTML: what the body says, with the address behind each link. */
export const textOf = (html: string): string =>
  convert(html.slice(0, maxHtml), {
    wordwrap: 78,
    // Bodies come from strangers.
    limits: { maxDepth: 60, maxChildNodes: 5000, ellipsis: '…' },
    selectors: [
      { selector: 'img', format: 'skip' },
      { selector: 'h1', options: { uppercase: false } },
      { selector: 'a', options: { hideLinkHrefIfSameAsText: true } },
      // Preheaders are for lists of mails.
      { selector: 'div[style*="display:none"]', format: 'skip' },
    ],
  });

/**
 * Where in markup a place is, as a browser would see it (HTML, 13.2.5); scripts and style sheets are taken for text.
 */
type State =
  | 'text'
  | 'open' // behind a <
  | 'name' // of a tag
  | 'between' // attributes
  | 'attribute' // its name
  | 'after' // its name
  | 'equals'
  | 'double' // quoted
  | 'single'
  | 'bare' // without quotes
  | 'bogus' // a doctype, or whatever else begins with <! or <?
  | 'comment';

/** A place that a value goes to. */
interface Place {
  /** `quoted`: in an attribute's quotes. `comment`: some mail programs read tags in it, too. */
  readonly kind: 'text' | 'quoted' | 'tag name' | 'tag' | 'comment';
  /** The attribute whose value begins here, in lower case; null: none does. */
  readonly begins: string | null;
}

/** Reads markup once, from its beginning to its end. */
interface Reader {
  /** The place at this index, which is not before the last one. */
  readonly placeAt: (index: number) => Place;
  /** The text between here and that index is replaced by a value that is (or is not) empty. */
  readonly skipTo: (index: number, isEmpty: boolean) => void;
}

const isBlank = (char: string): boolean => /[\s\p{C}]/u.test(char);
const isSpace = (char: string): boolean => /[\t\n\f\r ]/.test(char);
const maxNameLength = 32;

const inTag = (char: string, otherwise: State): State => {
  if (char === '>') return 'text';
  return isSpace(char) || char === '/' ? 'between' : otherwise;
};

const opened = (char: string, rest: string): State => {
  if (/[a-z/]/i.test(char)) return 'name';
  if (char === '!') return rest === '--' ? 'comment' : 'bogus';
  if (char === '?') return 'bogus';
  return char === '<' ? 'open' : 'text';
};

const afterEquals = (char: string): State => {
  if (char === '"') return 'double';
  if (char === "'") return 'single';
  if (char === '>') return 'text';
  return isSpace(char) ? 'equals' : 'bare';
};

const afterName = (char: string): State => {
  if (char === '=') return 'equals';
  return isSpace(char) ? 'after' : inTag(char, 'attribute');
};

const bare = (char: string): State => {
  if (char === '>') return 'text';
  return isSpace(char) ? 'between' : 'bare';
};

/** @param near two characters behind, three before */
type Step = (char: string, near: { readonly rest: string; readonly last: string }) => State;

const steps: Readonly<Record<State, Step>> = {
  text: (char) => (char === '<' ? 'open' : 'text'),
  open: (char, { rest }) => opened(char, rest),
  name: (char) => inTag(char, 'name'),
  between: (char) => inTag(char, 'attribute'),
  attribute: (char) => (isSpace(char) ? 'after' : afterName(char)),
  after: afterName,
  equals: afterEquals,
  double: (char) => (char === '"' ? 'between' : 'double'),
  single: (char) => (char === "'" ? 'between' : 'single'),
  bare,
  bogus: (char) => (char === '>' ? 'text' : 'bogus'),
  comment: (char, { last }) => (char === '>' && /--!?$/.test(last) ? 'text' : 'comment'),
};

const kinds: Readonly<Record<State, Place['kind']>> = {
  text: 'text',
  open: 'tag name',
  name: 'tag name',
  between: 'tag',
  attribute: 'tag',
  after: 'tag',
  equals: 'tag',
  double: 'quoted',
  single: 'quoted',
  bare: 'tag',
  bogus: 'tag',
  comment: 'comment',
};

const isValue = (state: State): boolean => /^(?:equals|double|single|bare)$/.test(state);

const readMarkup = (markup: string): Reader => {
  let [at, state, attribute, isBegin]: [number, State, string, boolean] = [0, 'text', '', true];

  const take = (char: string, index: number): void => {
    const before = state;
    state = steps[before](char, {
      rest: markup.slice(index + 1, index + 3),
      last: markup.slice(Math.max(0, index - 3), index),
    });
    if (state === 'attribute') {
      attribute = before === 'attribute' ? (attribute + char).slice(0, maxNameLength) : char;
    } else if (state === 'equals' || before === 'equals') {
      isBegin = state !== 'bare' || isBlank(char);
    } else if (isValue(state)) isBegin &&= isBlank(char);
  };

  return {
    placeAt: (index) => {
      for (; at < index; at += 1) take(markup.charAt(at), at);
      return { kind: kinds[state], begins: isValue(state) && isBegin ? attribute.toLowerCase() : null };
    },
    skipTo: (index, isEmpty) => {
      if (!isEmpty) take('x', at);
      at = index;
    },
  };
};

/** The values of placeholders; `{{a.b}}` looks into an object. */
export interface Variables {
  readonly [name: string]: string | number | Variables;
}

interface Rendered {
  readonly text: string;
  /** Placeholders that stand for nothing, each once. */
  readonly missing: readonly string[];
}

// Bounded, so that no text makes it scan the same place twice.
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
const escapeHtml = (text: string): string => text.replaceAll(/[&<>"'`]/g, (char) => escapes[char] ?? char);

/** For wherever in a tag: nothing of it ends a value that has no quotes. */
const escapeForTag = (text: string): string =>
  escapeHtml(text).replaceAll(/[\s\p{C}=/]/gu, (char) => `&#${char.codePointAt(0)};`);

/** Attributes that lead somewhere. */
const isLink = (attribute: string): boolean =>
  /(?:^|:)(?:href|src|srcset|action|formaction|background|poster|cite|data|ping|longdesc|lowsrc|dynsrc|codebase|classid|manifest)$/.test(
    attribute,
  );

const harmless = /^(?:https?:\/\/|mailto:)/i;

/**
 * Whether it would be taken for an address that is none of the web and none of mail, there or with what stands before
 * it.
 */
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
