import { de } from './de.ts';
import { en } from './en.ts';

/** The texts of the hosted pages in one language. */
export type Texts = typeof en;

/** A further language is one file beside these, and its line here. */
const languages: Readonly<Record<string, Texts>> = { en, de };

/** `de-AT;q=0.8` stands for `de`. */
const languageOf = (tag: string): string => tag.trim().split(/[-;]/, 1)[0]?.toLowerCase() ?? '';

/**
 * The texts in the first language that there is.
 * @param uiLocales of the request, separated by spaces, the wanted one first (OpenID Connect Core 1.0, 3.1.2.1)
 * @param acceptLanguage the browser's header
 */
export const textsFor = (uiLocales: string | undefined, acceptLanguage: string): Texts => {
  const wanted = [...(uiLocales?.split(' ') ?? []), ...acceptLanguage.split(',')].slice(0, 20).map(languageOf);
  const found = wanted.find((language) => Object.hasOwn(languages, language));
  return languages[found ?? 'en'] ?? en;
};

/** A text with its values: `{name}` stands for the value of that name. */
export const filled = (text: string, values: Readonly<Record<string, string | number>>): string =>
  text.replaceAll(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
