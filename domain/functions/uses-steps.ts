import type { CodeTexts, Language } from './store.ts';

// Bounded repetitions: code is a stranger's, and may be a megabyte of one word.
const bySdk = /\bsdk(?:\?\.|\.)step\b/;
const asParameter = /,\s{0,20}\{[^{}]{0,300}\bstep\b[^{}]{0,300}\}\s{0,20}\)\s{0,20}(?:=>|\{)/;
const fromSdk = /\{[^{}]{0,300}\bstep\b[^{}]{0,300}\}\s{0,20}=\s{0,20}sdk\b/;

/**
 * Whether code takes `step` from its SDK, so that its runs may be continued from their beginning on, when nothing is
 * recorded of them yet. Read from the compiled text, which has no comments. It knows the usual ways (`sdk.step`, a second
 * parameter or a variable `{ step }`) and no others: a function that has steps and is not found here is known from the
 * first step that any of its runs records.
 */
export const usesSteps = (language: Language, { code, files, compiled }: Omit<CodeTexts, 'entrypoint'>): boolean => {
  if (language === 'python') return bySdk.test(files ?? code);
  return [bySdk, asParameter, fromSdk].some((form) => form.test(compiled));
};
