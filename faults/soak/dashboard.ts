import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { stop } from 'esbuild';
import { type Page, chromium } from 'playwright-core';
import { projectBody } from '#bench/client.ts';
import { buildWeb } from '#scripts/web-build.ts';
import { StartError } from '#scripts/errors.ts';
import { findBrowser } from '#test/support/browser-program.ts';
import { type Scene, type Stage, openScene } from '../scene.ts';
import { type Ask, type DashboardScene, fillProject } from './dashboard-scene.ts';
import { type Held, countStreams, heldBy } from './held.ts';

/*
 * Every page of the dashboard stays open while runs, deliveries and changes of the schema are reported to it. What each
 * holds is measured after a warm-up and at the end.
 */

const root = path.resolve(import.meta.dirname, '../..');
const happensEveryMs = 500;
/** Lists that show the latest hundred of something are full by then. */
const beforehand = 150;
const warmUpShare = 0.25;

/** A page may grow by so much after its warm-up: what a list shows varies. */
const bounds: Held = { heapMb: 6, nodes: 1500, listeners: 150, streams: 0 };

interface Site {
  readonly url: string;
  readonly account: { readonly email: string; readonly password: string };
  readonly scene: DashboardScene;
}

const callerAt =
  (url: string, token: string): Ask =>
  async (method, at, body) => {
    const headers = { 'content-type': 'application/json', ...(token !== '' && { authorization: `Bearer ${token}` }) };
    const answer = await fetch(`${url}${at}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${at} answered ${answer.status}: ${text}`);
    return (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
  };

const openSite = async (faults: Scene, receiver: string): Promise<Site> => {
  const folder = path.join(faults.stage.surroundings.site.dataDir, 'dashboard');
  await buildWeb(root, folder, { quality: 1 });
  await stop();
  const own = {
    PORT: '0',
    PLINTH_DASHBOARD_DIR: folder,
    PLINTH_LOCAL: 'on',
    PLINTH_RATE_LIMITS: 'off',
    SANDBOX: 'best-effort',
    PLINTH_EGRESS_ALLOW: '127.0.0.0/8',
  };
  const [api, worker] = [faults.start('api', 'api/server.ts', own), faults.start('worker', 'workers/server.ts', own)];
  await Promise.all([api.ready, worker.ready]);
  const url = `http://127.0.0.1:${api.port()}`;
  const { slug = '', ...rest } = projectBody();
  const account = { email: `${slug}@example.com`, password: `password of ${slug}` };
  const token = String((await callerAt(url, '')('POST', '/auth/signup', account))['access_token']);
  const ask = callerAt(url, token);
  const { id, org_id: orgId } = await ask('POST', '/projects', { ...rest, slug });
  const scene = await fillProject(ask, { id: String(id), orgId: String(orgId), slug }, receiver);
  for (let nth = 1; nth <= beforehand; nth += 1) await scene.happen(nth);
  return { url, account, scene };
};

interface Watched {
  readonly at: string;
  readonly held: () => Promise<Held>;
}

const signIn = async (page: Page, { email, password }: Site['account']): Promise<void> => {
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('header.top').waitFor();
};

const measure = async (pages: readonly Watched[]): Promise<Held[]> => {
  const all: Held[] = [];
  for (const { held } of pages) all.push(await held());
  return all;
};

const keys = Object.keys(bounds) as (keyof Held)[];

/** The line of a page in the report, and what was wrong. */
const compared = (at: string, before: Held, after: Held) => {
  const text = keys.map((key) => `${key} ${before[key].toFixed(0)} → ${after[key].toFixed(0)}`).join(', ');
  const wrong = keys
    .filter((key) => after[key] - before[key] > bounds[key])
    .map((key) => `${at} grew by ${(after[key] - before[key]).toFixed(1)} ${key}, of which ${bounds[key]} are allowed`);
  return { line: `${at} ${text}`, wrong };
};

/** @returns what was wrong */
const watchPages = async (site: Site, minutes: number, print: (line: string) => void): Promise<string[]> => {
  const executablePath = findBrowser();
  if (executablePath === undefined) throw new StartError('There is no Chromium on this machine.');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  const ends = new AbortController();
  try {
    const context = await browser.newContext();
    context.setDefaultTimeout(120_000);
    await countStreams(context);
    const pages: Watched[] = [];
    for (const at of site.scene.pages) {
      const page = await context.newPage();
      await page.goto(`${site.url}/dashboard${at}`);
      if (pages.length === 0) await signIn(page, site.account);
      await page.locator('main').waitFor();
      pages.push({ at: `/dashboard${at}`, held: await heldBy(page) });
    }
    let happened = beforehand;
    const happening = (async () => {
      while (!ends.signal.aborted) {
        happened += 1;
        await site.scene.happen(happened);
        await pause(happensEveryMs);
      }
    })();
    await pause(minutes * 60_000 * warmUpShare);
    const before = await measure(pages);
    await pause(minutes * 60_000 * (1 - warmUpShare));
    const after = await measure(pages);
    ends.abort();
    await happening;
    print(`${happened - beforehand} things happened meanwhile`);
    const none: Held = { heapMb: 0, nodes: 0, listeners: 0, streams: 0 };
    const all = pages.map(({ at }, place) => compared(at, before[place] ?? none, after[place] ?? none));
    for (const { line } of all) print(line);
    return all.flatMap(({ wrong }) => wrong);
  } finally {
    ends.abort();
    await browser.close();
  }
};

const startReceiver = async (): Promise<Server> => {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
};

/** All pages of the dashboard, open for so long. @returns what was wrong */
export const soakDashboard = async (stage: Stage, minutes: number): Promise<readonly string[]> => {
  const receiver = await startReceiver();
  const faults = await openScene(stage, 'dashboard');
  try {
    const site = await openSite(faults, `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`);
    return await watchPages(site, minutes, (line) => console.log(line));
  } finally {
    await faults.close();
    receiver.close();
    receiver.closeAllConnections();
  }
};
