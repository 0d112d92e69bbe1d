import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import { fits, picture } from '../ops/browser.ts';

/* Steps that the browser tests of many pages share. */

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/**
 * The faults that axe finds, but for those of mails and files that are shown in frames. It is evaluated by the browser
 * itself, which the page's policy does not bind.
 */
export const axeFaults = async (page: Page): Promise<string[]> => {
  await page.evaluate(axe);
  const found = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>(
    `axe.run({ runOnly: ${JSON.stringify(rules)}, iframes: false })`,
  );
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html ?? ''}`);
};

const [wide, narrow, enlarged] = [
  { width: 1360, height: 900 },
  { width: 360, height: 780 },
  // A window of 1280 × 1024 at 400 %.
  { width: 320, height: 256 },
];

/**
 * The controls that cannot be scrolled into sight, because something covers or clips them, and dialogs that scroll
 * sideways. What was scrolled meanwhile stands as before afterwards.
 */
const outOfReach = `(() => {
  const scrolled = [...document.querySelectorAll('*')].map((each) => [each, each.scrollLeft, each.scrollTop]);
  const dialog = [...document.querySelectorAll('dialog[open]')].at(-1);
  const controls = (dialog ?? document).querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]');
  const isCovered = (control) => {
    control.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
    const [{ left, top, width, height } = { width: 0 }] = control.getClientRects();
    // Controls of one pixel are for screen readers only.
    if (width <= 1 || height <= 1) return false;
    const hit = document.elementFromPoint(left + width / 2, top + height / 2);
    return hit === null || !(control.contains(hit) || hit.closest('label')?.control === control);
  };
  const faults = [...controls]
    .filter((each) => each.tabIndex >= 0 && !each.disabled && !each.matches('.skip') && each.checkVisibility({ visibilityProperty: true }))
    .filter(isCovered)
    .map((each) => each.outerHTML.slice(0, 200));
  for (const [each, left, top] of scrolled) if (each.scrollLeft !== left || each.scrollTop !== top) each.scrollTo(left, top);
  return dialog && dialog.scrollWidth > dialog.clientWidth ? ['the dialog scrolls sideways', ...faults] : faults;
})()`;

/**
 * Asserts that the page has no fault that axe finds, in the light and in the dark theme, that nothing sticks out at the
 * side of a telephone or at 400 %, and that every control can be reached there. Pictures `dashboard-<name>`, `-dark`,
 * `-narrow` and `-enlarged` are for a person to look at.
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
  await page.setViewportSize(enlarged);
  t.true(await fits(page), `${name}, enlarged`);
  t.deepEqual(await page.evaluate(outOfReach), [], `${name}, enlarged`);
  await picture(page, `dashboard-${name}-enlarged`);
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
