import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import { fits, picture } from '../ops/browser.ts';

/* Steps that the browser tests of many pages share. */

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** The faults that axe finds; it is evaluated by the browser itself, which the page's policy does not bind. */
export const axeFaults = async (page: Page): Promise<string[]> => {
  await page.evaluate(axe);
  const found = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>(
    `axe.run({ runOnly: ${JSON.stringify(rules)} })`,
  );
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html ?? ''}`);
};

const [wide, narrow] = [
  { width: 1360, height: 900 },
  { width: 360, height: 780 },
];

/**
 * Asserts that the page has no fault that axe finds, in the light and in the dark theme, and that nothing sticks out
 * at the side of a telephone. Pictures `dashboard-<name>`, `-dark` and `-narrow` are for a person to look at.
 */
export const looksRight = async (t: ExecutionContext, page: Page, name: string): Promise<void> => {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    t.deepEqual(await axeFaults(page), [], `${name}, ${colorScheme}`);
    await picture(page, `dashboard-${name}${colorScheme === 'dark' ? '-dark' : ''}`);
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize(narrow);
  t.true(await fits(page), `${name}, narrow`);
  await picture(page, `dashboard-${name}-narrow`);
  await page.setViewportSize(wide);
};

/** Signs in at the form that a page shows to somebody who is signed out. */
export const signIn = async (page: Page, { email, password }: { email: string; password: string }): Promise<void> => {
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
};

/** Replaces the text of the SQL page and runs it. */
export const runSql = async (page: Page, sql: string): Promise<void> => {
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(sql);
  await page.keyboard.press('Control+Enter');
};

/** The complaints of the console but for refusals by the API, which the pages show: nobody was signed in, and the like. */
export const seriousOf = (complaints: readonly string[]): string[] =>
  complaints.filter((complaint) => !/status of 4\d\d/.test(complaint));

/** Replaces the text of the editor of the page. */
export const replaceCode = async (page: Page, text: string): Promise<void> => {
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(text);
};
