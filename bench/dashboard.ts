import { setTimeout as pause } from 'node:timers/promises';
import { type Browser, type CDPSession, type Page, chromium } from 'playwright-core';
import { stop } from 'esbuild';
import { buildWeb } from '#scripts/web-build.ts';
import { findBrowser } from '#test/support/browser-program.ts';
import { type Bench, type Benchmark, type Row, count, median, megabytes, ms } from './harness.ts';
import { projectBody } from './client.ts';
import { requiredIn } from './settings.ts';

/*
 * The dashboard in a real browser. CPU is that of the page's main thread, as Chromium counts it, so that other work on the
 * machine changes it less than it changes times of the clock.
 */

const tableRows = 100_000;

interface Visit {
  readonly page: Page;
  readonly session: CDPSession;
}

interface Scene {
  readonly url: string;
  readonly email: string;
  readonly password: string;
  readonly projectId: string;
  readonly functionId: string;
}

const send = async (url: string, token: string, body: unknown): Promise<Record<string, unknown>> => {
  const headers = { 'content-type': 'application/json', ...(token !== '' && { authorization: `Bearer ${token}` }) };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`POST ${url} answered ${answer.status}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
};

const openScene = async ({ env }: Bench): Promise<Scene> => {
  const url = requiredIn(env, 'PLINTH_TEST_BASE_URL');
  const { slug = '' } = projectBody();
  const account = { email: `${slug}@example.com`, password: `password of ${slug}` };
  const token = String((await send(`${url}/auth/signup`, '', account))['access_token']);
  const projectId = String((await send(`${url}/projects`, token, projectBody()))['id']);
  const sql = (text: string) => send(`${url}/projects/${projectId}/db/query`, token, { sql: text });
  await sql(
    'create table large (id int primary key, name text, price numeric, done boolean, at timestamptz, note text)',
  );
  await sql(
    `insert into large select i, 'row ' || i, i * 1.25, i % 2 = 0, now(), md5(i::text) from generate_series(1, ${tableRows}) i`,
  );
  await sql('analyze large');
  const logs = { name: 'logs', language: 'javascript', code: 'exports.handler = ({ n }) => console.log(`line ${n}`)' };
  const functionId = String((await send(`${url}/projects/${projectId}/functions`, token, logs))['id']);
  return { url, ...account, projectId, functionId };
};

/** A metric of the page, in the unit of Chromium: seconds, bytes or a number. */
const metric = async ({ session }: Visit, name: string): Promise<number> => {
  const { metrics } = await session.send('Performance.getMetrics');
  return metrics.find((one) => one.name === name)?.value ?? Number.NaN;
};

const cpuMs = async (visit: Visit): Promise<number> => 1000 * (await metric(visit, 'TaskDuration'));

const open = async (browser: Browser, at: string): Promise<Visit> => {
  const context = await browser.newContext({ viewport: { width: 1400, height: 860 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Performance.enable');
  await page.goto(at);
  return { page, session };
};

const signIn = async ({ page }: Pick<Visit, 'page'>, { email, password }: Scene): Promise<void> => {
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
};

interface Started {
  readonly toSignIn: number;
  readonly toTable: number;
  readonly openMs: number;
}

/** From an empty cache to the sign-in, and from the projects to a table that can be used. */
const startOnce = async (browser: Browser, scene: Scene): Promise<Started> => {
  const visit = await open(browser, `${scene.url}/dashboard`);
  await visit.page.getByLabel('Password').waitFor();
  const toSignIn = await cpuMs(visit);
  await signIn(visit, scene);
  await visit.page.locator(`a[href$="${scene.projectId}"]`).click();
  await visit.page.getByRole('link', { name: 'Tables' }).click();
  await visit.page.getByRole('link', { name: 'large' }).waitFor();
  const before = await cpuMs(visit);
  const began = performance.now();
  await visit.page.getByRole('link', { name: 'large' }).click();
  await visit.page.getByRole('gridcell', { name: 'row 1', exact: true }).waitFor();
  const openMs = performance.now() - began;
  const toTable = (await cpuMs(visit)) - before;
  await visit.page.context().close();
  return { toSignIn, toTable, openMs };
};

const starts = 5;

const startRows = async (browser: Browser, scene: Scene): Promise<Row[]> => {
  const all: Started[] = [];
  for (let round = 0; round < starts; round += 1) all.push(await startOnce(browser, scene));
  const of = (pick: (one: Started) => number): number => median(all.map(pick));
  const notes = [`median of ${starts}, empty cache`];
  return [
    {
      name: 'dashboard/cpu-to-sign-in',
      ours: ms(of((one) => one.toSignIn)),
      target: { of: 'ours', atMost: 200 },
      notes,
    },
    { name: 'dashboard/cpu-to-table', ours: ms(of((one) => one.toTable)), target: { of: 'ours', atMost: 100 }, notes },
    {
      name: 'dashboard/open-table',
      ours: ms(of((one) => one.openMs)),
      notes: [`${tableRows} rows, click to first row`],
    },
  ];
};

const frames = 300;
const pixelsPerFrame = 90;

/** Scrolls by so many pixels in each frame; the promise resolves after the last. */
const scrolling = (pixels: number): string => `new Promise((resolve) => {
  const grid = document.querySelector('.grid');
  let left = ${frames};
  const began = performance.now();
  const step = () => {
    if (left === 0) return resolve(performance.now() - began);
    left -= 1;
    grid.scrollTop += ${pixels};
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})`;

const scrollRows = async (visit: Visit): Promise<Row[]> => {
  const { page, session } = visit;
  await page.evaluate(scrolling(pixelsPerFrame));
  const before = await cpuMs(visit);
  const took = await page.evaluate<number>(scrolling(pixelsPerFrame));
  const perFrame = ((await cpuMs(visit)) - before) / frames;
  const nodes = await page.evaluate<number>(`document.querySelectorAll('*').length`);
  // To the last row, at 100 rows a frame and more.
  for (let times = 0; times < 4; times += 1) await page.evaluate(scrolling((tableRows * 30) / frames / 4));
  await pause(1000);
  await session.send('HeapProfiler.collectGarbage');
  const heap = (await metric(visit, 'JSHeapUsedSize')) / 1024 / 1024;
  return [
    {
      name: 'dashboard/scroll-cpu',
      ours: ms(perFrame),
      target: { of: 'ours', atMost: 8 },
      notes: [`${pixelsPerFrame} px a frame, ${((1000 * frames) / took).toFixed(1)} frames/s`],
    },
    { name: 'dashboard/dom-nodes', ours: count(nodes), target: { of: 'ours', atMost: 1200 }, notes: [] },
    {
      name: 'dashboard/heap',
      ours: megabytes(heap),
      target: { of: 'ours', atMost: 40 },
      notes: [`after ${tableRows} rows were scrolled through`],
    },
  ];
};

const edits = 9;

/** From Ctrl-S until the page says that the change is saved. */
const editRow = async ({ page }: Visit): Promise<Row> => {
  const times: number[] = [];
  await page.locator('.grid').focus();
  await page.keyboard.press('Control+Home');
  await page.keyboard.press('Control+ArrowUp');
  await page.keyboard.press('ArrowRight');
  // Its page was forgotten while others were scrolled through.
  await page.getByRole('gridcell', { name: 'row 1', exact: true }).waitFor();
  for (let round = 0; round < edits; round += 1) {
    await page.keyboard.type(`text ${round}`);
    await page.keyboard.press('Enter');
    await page.getByText('1 change is not saved').waitFor();
    const began = performance.now();
    await page.keyboard.press('Control+s');
    await page.getByText('1 change is saved.').waitFor();
    times.push(performance.now() - began);
  }
  return {
    name: 'dashboard/edit-to-saved',
    ours: ms(median(times)),
    target: { of: 'ours', atMost: 150 },
    notes: [`median of ${edits}, Ctrl-S to the page saying so`],
  };
};

const runs = 9;

/** Clicks on Run; the promise resolves with the ms until that line of the log is an element. */
const clickingRun = (line: string): string => `new Promise((resolve) => {
  let began = 0;
  const observer = new MutationObserver(() => {
    const log = document.querySelector('[role=log]');
    if (!log?.textContent.includes(${JSON.stringify(line)})) return;
    observer.disconnect();
    resolve(performance.now() - began);
  });
  observer.observe(document.body, { childList: true, subtree: true });
  const button = [...document.querySelectorAll('button')].find((each) => each.textContent.startsWith('Run version'));
  began = performance.now();
  button.click();
})`;

/** From a click on Run until the first line that the function logs is on the page. */
const runRow = async (browser: Browser, scene: Scene): Promise<Row> => {
  const { page } = await open(
    browser,
    `${scene.url}/dashboard/projects/${scene.projectId}/functions/${scene.functionId}`,
  );
  await signIn({ page }, scene);
  const times: number[] = [];
  for (let round = 0; round < runs; round += 1) {
    await page.getByLabel('Payload (JSON)').fill(`{ "n": ${round} }`);
    times.push(await page.evaluate<number>(clickingRun(`line ${round}`)));
    // Each run has ended before the next begins.
    await page.getByRole('heading', { name: 'Result' }).waitFor();
  }
  return {
    name: 'dashboard/first-log-line',
    ours: ms(median(times)),
    target: { of: 'ours', atMost: 300 },
    notes: [`median of ${runs}, click on Run to the line on the page; the first took ${(times[0] ?? 0).toFixed(0)} ms`],
  };
};

/** The dashboard in Chromium; skipped where there is none. */
export const dashboardBenchmark: Benchmark = {
  name: 'dashboard/',
  run: async (bench) => {
    const executablePath = findBrowser();
    if (executablePath === undefined) throw new Error('there is no Chromium on this machine');
    await buildWeb(bench.root, requiredIn(bench.env, 'PLINTH_DASHBOARD_DIR'), { quality: 9 });
    await stop();
    const scene = await openScene(bench);
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    try {
      const rows = await startRows(browser, scene);
      const visit = await open(browser, `${scene.url}/dashboard/projects/${scene.projectId}/tables/large`);
      await signIn(visit, scene);
      await visit.page.getByRole('gridcell', { name: 'row 1', exact: true }).waitFor();
      const others = [...(await scrollRows(visit)), await editRow(visit)];
      return [...rows, ...others, await runRow(browser, scene)];
    } finally {
      await browser.close();
    }
  },
};
