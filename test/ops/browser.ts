import test, { type ExecutionContext } from 'ava';
import { type Browser, type BrowserContextOptions, type Page, chromium } from 'playwright-core';
import { findTestBrowser } from '#test/support/browser-program.ts';
import { optionalTestEnv } from '#test/support/env.ts';
import { opsToken } from '#test/support/platform.ts';
import { patienceMs } from '#test/support/time-outs.ts';

const program = findTestBrowser();

/** The name of a host that is this machine. Unlike loopback's, its pages are in no secure context over plain HTTP. */
export const plainHost = 'plinth.test';

/** A test in a real browser; skipped by name where there is none. */
export const inBrowser = (title: string, work: (t: ExecutionContext) => Promise<void>): void => {
  if (program) test.serial(title, work);
  else test.serial.skip(`${title} (no Chromium on this machine)`, work);
};

export interface Visit {
  readonly page: Page;
  /** Errors of the console and the page. */
  readonly complaints: string[];
  /** Hosts that were asked for anything. */
  readonly hosts: Set<string>;
  readonly close: () => Promise<void>;
}

/** A browser of the test file's own, closed with it; opens pages with nothing kept from others. */
export const useBrowser = (): ((url: string, options?: BrowserContextOptions) => Promise<Visit>) => {
  let browser: Browser | undefined;
  test.before(async () => {
    // A sandbox of its own needs a user that is not root.
    const args = ['--no-sandbox', `--host-resolver-rules=MAP ${plainHost} 127.0.0.1`];
    if (program) browser = await chromium.launch({ executablePath: program, args, timeout: patienceMs });
  });
  test.after.always(() => browser?.close());
  return async (url, options = {}) => {
    if (browser === undefined) throw new Error('the browser has not started');
    const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, ...options });
    context.setDefaultTimeout(patienceMs);
    const page = await context.newPage();
    const [hosts, complaints] = [new Set<string>(), [] as string[]];
    page.on('request', (request) => request.url().startsWith('data:') || hosts.add(new URL(request.url()).host));
    page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(url);
    return { page, complaints, hosts, close: () => context.close() };
  };
};

/** Signs in as a person does, and waits for the first figures. */
export const signIn = async (page: Page): Promise<void> => {
  await page.getByLabel('Token').fill(opsToken);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
};

/** Pictures for a person to look at, when a folder for them is named. */
export const picture = async (page: Page, name: string): Promise<void> => {
  const folder = optionalTestEnv('PLINTH_TEST_PICTURES');
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
};

/** Whether nothing sticks out at the side. */
export const fits = (page: Page): Promise<boolean> =>
  page.evaluate<boolean>('document.documentElement.scrollWidth <= document.documentElement.clientWidth');
