import { createHash } from 'node:crypto';
import type { AuthSettings } from '#domain/end-users/settings.ts';
import type { Project } from '#domain/projects/store.ts';
import type { BaseCall } from '../../call.ts';
import { RawReply } from '../../endpoint.ts';
import { type Markup, badNote, goodNote, html, htmlType, style, styleSource } from '../html.ts';
import type { Texts } from './texts/texts.ts';

/** How a project looks to the users of its application. */
export interface Brand extends Pick<AuthSettings, 'branding'> {
  readonly name: string;
}

export const brandOf = ({ name }: Pick<Project, 'name'>, { branding }: AuthSettings): Brand => ({ name, branding });

/** A page in the project's name, in one language. */
export interface HostedPage {
  readonly brand: Brand;
  readonly texts: Texts;
  readonly title: string;
  readonly content: Markup;
  readonly failure?: string | null;
  readonly notice?: string | null;
  readonly status?: number;
  /** The origins that a form of the page leads to at last: browsers check redirects, too. */
  readonly formTargets?: readonly string[];
}

const channel = (hex: string, at: number): number => {
  const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
};

/** WCAG 2.2: the luminance of `#rrggbb`. */
const luminanceOf = (color: string): number =>
  0.2126 * channel(color, 1) + 0.7152 * channel(color, 3) + 0.0722 * channel(color, 5);

/** White and black have the same contrast to it at 0.179. */
const inkOn = (color: string): string => (luminanceOf(color) > 0.179 ? '#000000' : '#ffffff');

/** Only buttons have the project's colour: text in it could not be read on every ground. */
const accentStyle = (color: string): string => `button:not(.quiet){background:${color};color:${inkOn(color)}}`;

const sourceOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const policyOf = ({ brand, formTargets = [] }: HostedPage): string => {
  const { logo_url: logo, color } = brand.branding;
  const styles = [styleSource, ...(color === null ? [] : [sourceOf(accentStyle(color))])].join(' ');
  const images = logo === null ? '' : ` img-src ${new URL(logo).origin};`;
  const forms = ["'self'", ...formTargets].join(' ');
  return `default-src 'none'; style-src ${styles};${images} form-action ${forms}; frame-ancestors 'none'; base-uri 'none'`;
};

/** The origin of an address as a policy names it; an application's own scheme has none. */
export const formTargetOf = (address: string): string => {
  const { origin, protocol } = new URL(address);
  return origin === 'null' ? protocol : origin;
};

/** Set on every page, also on those that a library writes. */
export const hostedHeaders = {
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
  'Cache-Control': 'no-store',
} as const;

const headOf = ({ branding, name }: Brand): Markup =>
  branding.logo_url === null
    ? html`<div class="brand">${name}</div>`
    : html`<div class="brand"><img src="${branding.logo_url}" alt="${name}" /></div>`;

/** The whole page, and the policy that it needs. */
export const hostedText = (given: HostedPage): { readonly text: string; readonly policy: string } => {
  const { brand, texts, title, content, failure = null, notice = null } = given;
  const { color } = brand.branding;
  const body = html`${headOf(brand)}
    <h1>${title}</h1>
    ${badNote(failure)}${notice === null ? null : goodNote(notice)} ${content}`;
  const text = `<!doctype html>
<html lang="${texts.lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${html`${title} · ${brand.name}`.text}</title>
<style>${style}</style>${color === null ? '' : `\n<style>${accentStyle(color)}</style>`}
</head>
<body>
<main>
${body.text}
</main>
<footer>${texts.closePage}</footer>
</body>
</html>
`;
  return { text, policy: policyOf(given) };
};

/** A hosted page as the answer of a call. */
export const hostedPage = ({ setHeader }: Pick<BaseCall, 'setHeader'>, given: HostedPage): RawReply => {
  const { text, policy } = hostedText(given);
  for (const [name, value] of Object.entries(hostedHeaders)) setHeader(name, value);
  setHeader('Content-Security-Policy', policy);
  return new RawReply(text, htmlType, given.status ?? 200);
};
