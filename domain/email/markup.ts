/** Where in markup a place is, as a browser would see it (HTML, 13.2.5); scripts and style sheets are taken for text. */
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
export interface Place {
  /** `quoted`: in an attribute's quotes. `comment`: some mail programs read tags in it, too. */
  readonly kind: 'text' | 'quoted' | 'tag name' | 'tag' | 'comment';
  /** The attribute whose value begins here, in lower case; null: none does. */
  readonly begins: string | null;
}

/** Reads markup once, from its beginning to its end. */
export interface Reader {
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

export const readMarkup = (markup: string): Reader => {
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
