import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { BaseCall } from '../call.ts';
import { RawReply } from '../endpoint.ts';

/** Markup that is safe to send: made by `html`, which escapes every value that is none itself. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | Markup | null | readonly Markup[];

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0) ?? 0};`);

const rendered = (value: Value): string => {
  if (value === null) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value !== 'string') return value.map(({ text }) => text).join('');
  return escaped(value);
};

/** Markup with values in it, each of them escaped; null is nothing. */
export const html = (parts: TemplateStringsArray, ...values: readonly Value[]): Markup =>
  new Markup(parts.map((part, i) => part + rendered(values[i] ?? null)).join(''));

const readStyle = (): string => readFileSync(path.join(import.meta.dirname, '../../web/account/style.css'), 'utf8');

export const style = readStyle();
/** Allows the style sheet of pages in a policy. */
export const styleSource = `'sha256-${createHash('sha256').update(style).digest('base64')}'`;

/**
 * The one style sheet stands in the page and is allowed by its hash. No script, no other origin, no framing, and no
 * referrer, since the address holds a token.
 */
const policy = `default-src 'none'; style-src ${styleSource}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`;

export const pageHeaders = {
  'Content-Security-Policy': policy,
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
  'Cache-Control': 'no-store',
} as const;

export const secured = ({ setHeader }: Pick<BaseCall, 'setHeader'>): void => {
  for (const [name, value] of Object.entries(pageHeaders)) setHeader(name, value);
};

export const htmlType = 'text/html; charset=utf-8';

/** A whole page with one card. */
export const pageText = (title: string, content: Markup): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escaped(title)} · plinth</title>
<style>${style}</style>
</head>
<body>
<main>
<div class="brand">plinth</div>
<h1>${escaped(title)}</h1>
${content.text}
</main>
<footer>If you did not expect this page, you can close it.</footer>
</body>
</html>
`;

export const page = (title: string, content: Markup, status = 200): RawReply =>
  new RawReply(pageText(title, content), htmlType, status);

/** An error message, which screen readers announce at once. */
export const badNote = (message: string | null): Markup | null =>
  message === null ? null : html`<div class="note bad" role="alert">${message}</div>`;

export const goodNote = (message: string): Markup => html`<div class="note good" role="status">${message}</div>`;
