import { existsSync } from 'node:fs';
import { optionalTestEnv } from './env.ts';

const withWindow = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
// The same browser without a window: its tests take 30 % less processor time.
const withoutWindow = '/usr/bin/chromium-headless-shell';

/** The path of the browser that people use, for measurements; undefined where there is none. */
export const findBrowser = (): string | undefined => withWindow.find((path) => existsSync(path));

/** The path of the browser for tests; undefined where there is none. */
export const findTestBrowser = (): string | undefined =>
  [optionalTestEnv('PLINTH_TEST_CHROMIUM') ?? '', withoutWindow, ...withWindow].find(
    (path) => path !== '' && existsSync(path),
  );
